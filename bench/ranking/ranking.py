#!/usr/bin/env python3
"""Whether the lab ranks policies as the machine does: plays four traces on the machine with each of
several policies, replays them in the lab, and holds the two rankings against each other.

    bench/ranking/ranking.py measure --out FILE      on the machine; a run that fails is noted and left out
    bench/ranking/ranking.py replay FILE...          in the lab, anywhere; adds to the file, and judges
    bench/ranking/ranking.py all --out FILE          both
    bench/ranking/ranking.py show FILE               the tables again

The file is written after each run. The order within a round is shuffled; the seed is kept. See
docs/results/ranking.md.
"""

import json
import os
import pathlib
import random
import re
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(1, str(ROOT / "bench"))
import rank_order
import ranking_traces
from harness.measuring_context import commit, make_context, query_gpus
from harness.programs import parser_of, run_json
from harness.samples import table, write_document

MACHINES = ROOT / "runtime" / "machine" / "machines"
BAR = 0.9
POLICIES = ["stay_put", "counter", "coin_flip:multiple=40", "two_touch:window=300ms",
            "cost_benefit", "latency_balance", "histogram_fill:period=200ms,cooling=500ms",
            "watermark_age:second_touch=200ms"]
# What the runtime keeps to, and how `ranking_bench` launches: batches of 0.5 to 1 ms.
LAB_OPTIONS = ["--stall-budget", "60", "--ahead", "0.75"]
QUICK_POLICIES = ["stay_put", "counter", "two_touch:window=5ms"]


class Workload:
    """A trace, and how it is played: options that `ranking_bench` and `vmart-lab replay` both have."""

    def __init__(self, parameters, options):
        self.parameters, self.options = parameters, options


MAKERS = {"rebalance": ranking_traces.make_rebalance,
          "conversations": ranking_traces.make_conversations,
          "shortage": ranking_traces.make_conversations,
          "steps": ranking_traces.make_steps}


def workloads_for(gpus):
    """The same conversations for any number of GPUs, in as much HBM together, and passes for each."""
    conversations = {"sample": {"requests": 800, "turns": 3, "blocks": 40, "conversations": 16},
                     "launch_mib": 128, "passes_share": 0.1 * gpus, "times_share": 0.125}
    return {
        "rebalance": Workload(
            {"rounds": 400, **({} if gpus == 4 else {"gpus": gpus})},
            {"router": "hash", "hbm": 6, "chunk": 256, "half-life": 200}),
        "conversations": Workload(
            conversations,
            {"router": "round_robin", "hbm": 24 // gpus, "chunk": 64, "half-life": 200}),
        "shortage": Workload(
            {**conversations, "passes_share": 0.05 * gpus},
            {"router": "round_robin", "hbm": 12 / gpus, "chunk": 64, "half-life": 200}),
        "steps": Workload(
            {"gpus": gpus, "phases": 4, "steps": 160, "block_bytes": 1 << 31,
             "chunk_bytes": 256 << 20, "launch_bytes": 256 << 20, "compute_us": 1000},
            {"router": "hash", "hbm": 6, "chunk": 256, "half-life": 200}),
    }


QUICK_WORKLOADS = {
    "rebalance": Workload(
        {"rounds": 40, "chunks": 2, "chunk_bytes": 2 << 20, "launch_bytes": 2 << 20},
        {"router": "hash", "hbm": 0.03125, "chunk": 2, "half-life": 20}),
    "conversations": Workload(
        {"sample": {"requests": 800, "turns": 3, "blocks": 7, "conversations": 1},
         "launch_mib": 4, "passes_share": 0.01, "times_share": 0.125, "token_bytes": 4096},
        {"router": "round_robin", "hbm": 0.03125, "chunk": 2, "half-life": 20}),
    "steps": Workload(
        {"gpus": 2, "phases": 2, "steps": 20, "block_bytes": 4 << 20, "chunk_bytes": 2 << 20,
         "launch_bytes": 2 << 20, "compute_us": 1000},
        {"router": "hash", "hbm": 0.03125, "chunk": 2, "half-life": 20}),
}


def options_of(workload):
    return [part for name, value in workload.options.items() for part in (f"--{name}", str(value))]


def context_of(arguments, seed):
    gpus = query_gpus("name,driver_version") if arguments.driver == "cuda" else []
    costs = pathlib.Path(arguments.costs)
    return make_context("bench/ranking/ranking.py", arguments.driver, gpus, seed) | {
        "machine": arguments.machine,
        "costs": os.path.relpath(costs, ROOT) if costs.exists() else arguments.costs,
        "calibration": calibration_in(costs),
        "repeats": arguments.repeats, "quick": arguments.quick,
    }


def workloads_of(document):
    """As they were measured."""
    return {name: Workload(each["parameters"], each["options"])
            for name, each in document["workloads"].items()}


def keep(entry, names):
    return {name: entry[name] for name in names if name in entry}


class Measuring:
    """Runs on the machine, until the budget is spent."""

    KEPT = ("seconds", "accesses", "launches", "bytes", "allocations", "spilled", "alloc_s", "marks",
            "bytes_moved", "gates", "gates_given_up", "stall", "skew", "moves_wanted", "moves",
            "moves_failed", "moves_refused", "policy_failures", "ticks", "ticks_late", "uses_lost",
            "machine")

    def __init__(self, arguments, document):
        self.arguments, self.document = arguments, document
        self.program = pathlib.Path(arguments.build) / "bench" / "ranking_bench"
        self.end = time.monotonic() + arguments.budget
        self.environment = {**os.environ, "VMART_DRIVER": arguments.driver}
        if arguments.costs:
            self.environment["VMART_CALIBRATION"] = str(arguments.costs)

    def run(self, name, workload, trace, policy, number):
        run = {"workload": name, "policy": policy, "repeat": number}
        left_s = self.end - time.monotonic()
        if left_s < self.arguments.least:
            self.document["failed"].append({**run, "reason": "left out for want of time"})
            return
        command = [str(self.program), str(trace), "--policy", policy, *options_of(workload)]
        environment = dict(self.environment)
        if self.arguments.record and number == 0:
            name_of_folder = re.sub(r"[^\w.=-]", "_", f"{name}-{policy}")
            environment["VMART_RECORD"] = str(pathlib.Path(self.arguments.record) / name_of_folder)
        begin = time.monotonic()
        try:
            entry = run_json(command, environment, min(self.arguments.limit, left_s))
            self.document["samples"].append({**run, **keep(entry, self.KEPT)})
            print(f"  {name}, {policy}: {entry['seconds']:.3f} s, {entry['moves']} moves "
                  f"({time.monotonic() - begin:.1f} s in all)", flush=True)
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            self.document["failed"].append({**run, "reason": str(error)})
            print(f"  FAILED {name}, {policy}: {error}", flush=True)


def make_traces(arguments, workloads, folder):
    lab = pathlib.Path(arguments.build) / "runtime" / "tools" / "vmart-lab"
    traces = {}
    for name, workload in workloads.items():
        own = folder / name
        own.mkdir()
        traces[name] = MAKERS[name](lab, own, workload.parameters)
    return traces


def require_gpus(arguments):
    """What is played is for so many GPUs: VMART_DEVICES says which, where a machine has more."""
    if arguments.driver != "cuda" or arguments.quick:
        return
    named = [each for each in os.environ.get("VMART_DEVICES", "").split(",") if each]
    there = len(named) if named else len(query_gpus("name"))
    if there != arguments.gpus:
        raise SystemExit(f"--gpus {arguments.gpus}, but the machine has {there}: VMART_DEVICES names them")


def policies_of(arguments):
    if arguments.policies:
        return arguments.policies
    return QUICK_POLICIES if arguments.quick else POLICIES


def measure(arguments):
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10**6)
    require_gpus(arguments)
    all_of_them = QUICK_WORKLOADS if arguments.quick else workloads_for(arguments.gpus)
    workloads = {name: workload for name, workload in all_of_them.items()
                 if not arguments.only or name in arguments.only}
    document = {
        "context": context_of(arguments, seed),
        "workloads": {name: {"parameters": workload.parameters, "options": workload.options}
                      for name, workload in workloads.items()},
        "failed": [], "samples": []}
    chooser = random.Random(seed)
    measuring = Measuring(arguments, document)
    with tempfile.TemporaryDirectory(prefix="ranking_") as folder:
        traces = make_traces(arguments, workloads, pathlib.Path(folder))
        for number in range(arguments.repeats):
            print(f"round {number + 1}", flush=True)
            runs = [(name, policy) for name in workloads
                    for policy in policies_of(arguments)]
            chooser.shuffle(runs)
            for name, policy in runs:
                measuring.run(name, workloads[name], traces[name], policy, number)
                write_document(arguments.out, document, "samples", "replays")
    return document


def replay(arguments, document):
    """The same in the lab, for what was measured."""
    lab = pathlib.Path(arguments.build) / "runtime" / "tools" / "vmart-lab"
    workloads = workloads_of(document)
    machine = arguments.machine or document["context"].get("machine", "h200x4")
    document["replays"], failed = [], []
    with tempfile.TemporaryDirectory(prefix="ranking_") as folder:
        traces = make_traces(arguments, workloads, pathlib.Path(folder))
        calibration = calibration_of(document, pathlib.Path(folder))
        for name in workloads:
            policies = dict.fromkeys(sample["policy"] for sample in document["samples"]
                                     if sample["workload"] == name)
            for policy in policies:
                run = {"workload": name, "policy": policy}
                command = [str(lab), "replay", str(traces[name]), "--json", "--pacing", "at_once",
                           "--machine", machine, "--policy", policy, *LAB_OPTIONS,
                           *calibration, *options_of(workloads[name]),
                           *arguments.lab_options]
                try:
                    entry = run_json(command, dict(os.environ), arguments.limit)
                    document["replays"].append({**run, **figures_of(entry)})
                except (RuntimeError, OSError, ValueError, KeyError) as error:
                    failed.append({**run, "reason": f"replay: {error}"})
    document["failed"] = [entry for entry in document["failed"]
                          if not entry["reason"].startswith("replay: ")] + failed
    document["lab"] = {"machine": machine, "options": arguments.lab_options,
                       "commit": commit()}
    document["judgement"] = judge(document)
    write_document(arguments.out, document, "samples", "replays")


def calibration_in(path):
    """The calibration that the file has; none if it has something else."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if found.get("format") == "vmart calibration" else None


def calibration_of(document, folder):
    """The costs that the machine's runs went by, where these are a calibration."""
    found = document["context"].get("calibration") or calibration_in(ROOT / document["context"]["costs"])
    if not found:
        return []
    (folder / "calibration.json").write_text(json.dumps(found))
    return ["--calibration", str(folder / "calibration.json")]


def figures_of(entry):
    if entry["accesses_lost"]:
        raise RuntimeError(f"{entry['accesses_lost']} accesses were lost")
    return {"seconds": (entry["end_ns"] - entry["begin_ns"]) * 1e-9,
            **keep(entry, ("accesses", "bytes", "moves", "bytes_moved", "stall_ns", "skew_ns",
                           "chunks_spilled", "moves_wanted", "moves_refused", "bytes_by_place"))}


def seconds_of(entries, name):
    """By policy."""
    seconds = {}
    for entry in entries:
        if entry["workload"] == name:
            seconds.setdefault(entry["policy"], []).append(entry["seconds"])
    return seconds


def together(documents):
    """The samples of all, of the same workloads; the others' contexts are kept beside the first's."""
    first = documents[0]
    for other in documents[1:]:
        if other["workloads"] != first["workloads"]:
            raise SystemExit("the files are of other workloads")
        first.setdefault("other_contexts", []).append(other["context"])
        first["samples"] += other["samples"]
        first["failed"] += other["failed"]
    return first


def judge(document):
    judgement = {}
    for name in document["workloads"]:
        judgement[name] = rank_order.compare(seconds_of(document["samples"], name),
                                             seconds_of(document["replays"], name))
    return judgement


def median_of(entries, name, policy, key):
    values = [entry[key] for entry in entries
              if entry["workload"] == name and entry["policy"] == policy]
    return rank_order.Measured(values).median if values else None


def show(value, form):
    return "-" if value is None else format(value, form)


def rows_of(document, name):
    samples, replays = document["samples"], document.get("replays", [])
    measured = {policy: rank_order.Measured(times)
                for policy, times in seconds_of(samples, name).items()}
    for policy, times in sorted(measured.items(), key=lambda item: item[1].median):
        lab = median_of(replays, name, policy, "seconds")
        yield [f"`{policy}`", f"{times.median:.3f}", f"{times.spread:.3f}", show(lab, ".3f"),
               show(lab / times.median if lab else None, ".2f"),
               show(median_of(samples, name, policy, "moves"), ".0f"),
               show(median_of(replays, name, policy, "moves"), ".0f")]


HEADERS = ["policy", "machine, s", "spread, s", "lab, s", "lab / machine", "moves", "moves in the lab"]


def print_tables(document):
    for name in document["workloads"]:
        print(f"\n{name}\n\n{table(HEADERS, list(rows_of(document, name)))}\n")
        found = document.get("judgement", {}).get(name)
        if found:
            print(f"tau-b {show(found['tau_b'], '.3f')} (bar {BAR}), with each one's own ties "
                  f"{show(found['tau_b_own_ties'], '.3f')}: of {found['pairs']} pairs "
                  f"{found['agree']} agree, {found['disagree']} disagree, "
                  f"{found['ties_machine']} are ties on the machine")
            for wrong in found["wrong"]:
                print(f"  the lab {'misses' if wrong['model'] == 0 else 'turns round'}: "
                      f"{' and '.join(wrong['pair'])}")
    for failure in document["failed"]:
        print(f"FAILED {failure['workload']}, {failure['policy']}: {failure['reason']}")


def parse_arguments():
    parser = parser_of(__doc__)
    parser.add_argument("step", choices=("measure", "replay", "all", "show"))
    parser.add_argument("files", nargs="*", help="of measured samples, for replay and show; of "
                        "several the samples are taken together, as more repeats")
    parser.add_argument("--build", default="build/release", help="the build directory")
    parser.add_argument("--out", help="where all goes (JSON); replay: the file itself")
    parser.add_argument("--driver", help="VMART_DRIVER; default cuda")
    parser.add_argument("--gpus", type=int, choices=(2, 4, 8), default=4,
                        help="of the machine, for how much is played there")
    parser.add_argument("--machine", help="the lab's, a name or a file; default: h200xGPUS, "
                        "or that of the file")
    parser.add_argument("--costs", help="VMART_CALIBRATION of the runs on the machine; default: the "
                        "lab's machine file, so that policies decide by the same costs")
    parser.add_argument("--lab-options", type=str.split, default=[],
                        help="more for vmart-lab replay, in one text")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=MAKERS, help="these workloads")
    parser.add_argument("--policies", nargs="+")
    parser.add_argument("--budget", type=float, default=720, help="seconds for all runs")
    parser.add_argument("--limit", type=float, default=45, help="seconds for one")
    parser.add_argument("--least", type=float, default=15, help="with less left, none is begun")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--record", help="a folder: VMART_RECORD of the first round's runs")
    parser.add_argument("--quick", action="store_true", help="small traces, to see that all runs")
    arguments = parser.parse_args()
    if arguments.step in ("replay", "show") and not arguments.files:
        parser.error("which file?")
    if not arguments.out and len(arguments.files) == 1:
        arguments.out = arguments.files[0]
    if not arguments.out and arguments.step != "show":
        parser.error("--out is missing")
    if arguments.quick and "shortage" in (arguments.only or []):
        parser.error("there is no quick shortage")
    arguments.driver = arguments.driver or os.environ.get("VMART_DRIVER") or "cuda"
    if arguments.step in ("measure", "all"):
        arguments.machine = arguments.machine or f"h200x{arguments.gpus}"
        described = MACHINES / f"{arguments.machine}.json"
        arguments.costs = arguments.costs or str(described if described.exists() else arguments.machine)
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.step in ("measure", "all"):
        document = measure(arguments)
    else:
        document = together([json.loads(pathlib.Path(file).read_text()) for file in arguments.files])
    if arguments.step in ("replay", "all"):
        replay(arguments, document)
    print_tables(document)
    return 1 if document["failed"] or not document["samples"] else 0


if __name__ == "__main__":
    sys.exit(main())
