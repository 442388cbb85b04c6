#!/usr/bin/env python3
"""Runs the benchmarks and their rivals, each in a process of its own, and prints one table.

    bench/run.py                      2 GPUs where there are GPUs, else a smoke run on sim:h200x2
    bench/run.py --gpus 4             the rows that name four GPUs
    bench/run.py --live               live moves: live_bench and what it is held against
    bench/run.py --placement          the scheduler: placement_bench and what else it is held against
    bench/run.py --summary file.json  the rows of docs/results/summary.md and their rivals, on one or two GPUs, in a
                                      quarter of an hour; for docs/measurements/summary_MACHINE.json
    bench/run.py --quick              one short round, to see that all runs
    bench/run.py --only 'naive|raw'   the steps whose name matches
    bench/run.py --out file.json      keeps the samples, for docs/measurements and bench/report.py

The order within each round is shuffled; the seed is printed and kept. A step is not begun when the
time budget would not last; it is then listed as left out.
"""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from calls import call_figures
from harness.measuring_context import make_context, query_gpus
from harness.programs import SKIPPED, parser_of, run_text
from harness.samples import Measurements, table, write_document
from live import live_figures
from overview.measuring import Overview
from overview.steps import STEPS as SUMMARY_STEPS
from placement import placement_figures

BENCH = pathlib.Path(__file__).resolve().parent
COUNTERS = ("chunks", "moves", "busy", "launches", "cuda_mallocs", "device_synchronizes",
            "legacy_fills")
COUNTER_ENDINGS = ("_us", "_ns", "_ms", "_per_lookup", "_per_s", "_gb_s", "_share", "_count", "moves",
                   "busy", "retries", "chunks_live", "chunks_moved", "bytes_twice", "targets",
                   "backlog_launches", "allocations", "synchronizes", "kernel_loads", "_a_chunk",
                   "_per_use")
OPEN_COST_LIMIT_S = 60
SMALL = "([0-9]+MiB|1GiB|4GiB)/iterations"

# Name, program, filter of its benchmarks, rounds that it takes part in (0: all).
STEPS = [
    ("migrate_warm", "migrate_bench", "migrate/warm/gpu.-gpu", 0),
    ("raw_copy", "raw_copy_rival", "raw_copy/gpu.-gpu", 0),
    ("migrate_empty", "migrate_bench", "migrate/empty/gpu.-gpu", 0),
    ("migrate_freed", "migrate_bench", "migrate/freed/gpu.-gpu", 0),
    ("naive", "naive_rival", "naive/alone", 0),
    ("naive_keepers", "naive_rival", "naive/keepers", 0),
    ("prefetch", "prefetch_rival", "prefetch", 0),
    ("migrate_host", "migrate_bench", f"migrate/warm/(gpu0-host|host0-gpu).*{SMALL}", 0),
    ("raw_copy_host", "raw_copy_rival", f"raw_copy/(gpu0-host|host0-gpu).*{SMALL}", 0),
    ("alloc", "alloc_bench", "alloc_free", 0),
    ("cuda_malloc", "cuda_malloc_rival", ".*", 0),
    ("first_alloc", "alloc_bench", "first_alloc", 0),
    ("dark", "migrate_bench", "migrate/dark", 0),
    ("registry", "registry_bench", ".*", 0),
    ("copy_guard", "copy_guard_bench", ".*", 0),
    ("driver_calls", "driver_calls_bench", "driver_calls/alone", 0),
    ("driver_calls_keepers", "driver_calls_bench", "driver_calls/keepers", 0),
    ("driver_calls_exportable", "driver_calls_bench", "driver_calls/exportable", 0),
    ("hold_stress", "hold_stress", ".*", 1),
    ("migrate_host_empty", "migrate_bench", "migrate/empty/(gpu0-host|host0-gpu)", 0),
    ("migrate_host_16", "migrate_bench", "migrate/warm/(gpu0-host|host0-gpu).*/16GiB", 0),
    ("raw_copy_host_16", "raw_copy_rival", "raw_copy/(gpu0-host|host0-gpu).*/16GiB", 0),
]
# With four GPUs only what depends on the number of GPUs is run again.
FOUR_GPU_STEPS = ("migrate_host", "raw_copy_host", "first_alloc", "dark", "hold_stress",
                  "migrate_warm", "raw_copy", "alloc", "cuda_malloc", "driver_calls_keepers")
# The same of live moves. A case that hangs takes the others of its step with it, so steps are small.
LIVE_HEADLINE = "live/stall/streams4/kernel5us/backlog1/"
LIVE_STEPS = [
    ("live_headline", "live_bench", LIVE_HEADLINE, 0),
    ("live_size", "live_bench", "live/size/", 1),
    ("live_rate", "live_bench", "live/rate/", 0),
    ("live_budget", "live_bench", "live/budget/", 0),
    ("live_drain", "live_bench", "live/drain/", 0),
    ("live_host", "live_bench", "live/host/", 0),
    ("live_timeline", "live_bench", "live/timeline/", 1),
    ("prefetch_timeline", "prefetch_timeline_rival", ".*", 1),
    ("raw_copy", "raw_copy_rival", "raw_copy/gpu0-gpu1", 0),
    ("prefetch", "prefetch_rival", "prefetch/gpu0-gpu1", 0),
    ("live_modes", "live_bench", "live/modes/", 1),
    ("live_stall_1", "live_bench", "live/stall/streams1/", 1),
    ("live_stall_4", "live_bench", "live/stall/streams4/kernel(1ms|20ms|5us/backlog1000)", 1),
    ("live_stall_8", "live_bench", "live/stall/streams8/", 1),
    ("live_kernels", "live_bench", "live/kernels/", 1),
    ("live_copy", "live_bench", "live/copy/", 1),
    ("live_attach", "live_bench", "live/attach/", 0),
    ("live_beside_nothing", "live_bench", "live/beside/nothing", 1),
    ("live_beside_monitor", "live_bench", "live/beside/monitor", 1),
    ("live_beside_process", "live_bench", "live/beside/process", 1),
    ("live_beside_threads", "live_bench", "live/beside/threads", 1),
    ("live_nccl", "live/nccl_beside.py", "live/nccl/", 1),
]
LIVE_FOUR_GPU_STEPS = ("live_headline", "live_drain", "live_host", "live_timeline", "live_size",
                       "live_beside_threads", "live_beside_process", "live_beside_monitor",
                       "live_nccl")
LIVE_LAST_STEPS = ("live_modes", "live_stall_1", "live_stall_4", "live_stall_8", "live_kernels",
                   "live_copy",
                   "live_beside_nothing", "live_beside_monitor", "live_beside_process",
                   "live_beside_threads", "live_nccl")
# What the scheduler gives and costs. Each case opens runtimes of its own.
PLACEMENT_STEPS = [
    ("record_use", "use_log_bench", ".*", 0),
    ("record_launch", "record_launch_bench", ".*", 0),
    ("policy_tick", "policy_bench", "policy/cost_benefit/tick", 1),
    ("advise", "placement_bench", "placement/advise", 0),
    ("tick", "placement_bench", "placement/tick/", 1),
    ("idle", "placement_bench", "placement/idle/", 0),
    ("park", "placement_bench", "placement/park/", 0),
    ("drift", "placement_bench", "placement/drift/", 0),
    ("flicker", "placement_bench", "placement/flicker/", 0),
    ("managed_drift", "managed_drift_rival", ".*", 0),
    ("oversubscribed", "placement_bench", "placement/oversubscribed/", 0),
    ("prediction", "placement_bench", "placement/prediction/", 0),
]
LAST_STEPS = ("hold_stress", "migrate_host_16", "raw_copy_host_16", "migrate_host_empty")
LAST_FOUR_GPU_STEPS = FOUR_GPU_STEPS[4:]


def parse_arguments():
    parser = parser_of(__doc__)
    parser.add_argument("--build", default="build/release", help="the build directory")
    parser.add_argument("--out", help="where the samples go (JSON)")
    parser.add_argument("--gpus", type=int, default=2, help="how many GPUs are used")
    parser.add_argument("--live", action="store_true", help="live moves instead of all else")
    parser.add_argument("--placement", action="store_true", help="the scheduler instead of all else")
    parser.add_argument("--summary", metavar="FILE", help="the rows of the summary instead of all else; where their samples go")
    parser.add_argument("--seconds", type=float,
                        help="of a case of live_bench or placement_bench; default 3")
    parser.add_argument("--rounds", type=int,
                        help="processes of each kind; default 3, live and placement 1")
    parser.add_argument("--repetitions", type=int, default=7, help="samples a process")
    parser.add_argument("--budget", type=float,
                        help="seconds; default 360 with 2 GPUs, 180 with 4; live, placement 580, summary 870")
    parser.add_argument("--step-limit", type=float,
                        help="seconds for one process; default 120, live, placement 240")
    parser.add_argument("--only", default=None, help="regular expression of step names")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--driver", help="VMART_DRIVER; default cuda where there is a GPU")
    return parser.parse_args()


def fill_in(arguments, simulated):
    """Defaults that depend on what runs, and where."""
    short = arguments.quick or simulated
    of_cases = arguments.live or arguments.placement
    if arguments.seconds is None:
        arguments.seconds = 0.02 if simulated else 0.5 if short else 3
    if arguments.rounds is None:
        arguments.rounds = 1 if of_cases else 3
    if short:
        arguments.rounds, arguments.repetitions = 1, min(arguments.repetitions, 3)
    if arguments.summary:
        arguments.gpus = min(arguments.gpus, 2)
        arguments.budget = arguments.budget or 870  # What hangs may take 20 s to go.
    if arguments.budget is None:
        arguments.budget = 580 if of_cases else 180 if arguments.gpus > 2 else 360
    if arguments.step_limit is None:
        arguments.step_limit = 240 if of_cases else 120


def context_of(arguments, gpus, seed):
    used = gpus[:arguments.gpus]
    simulated = arguments.driver != "cuda"
    return make_context("bench/run.py", arguments.driver, used, seed) | {
        "gpu_count": simulated_gpus(arguments.driver) if simulated else len(used),
        "rounds": arguments.rounds,
        "repetitions": arguments.repetitions,
        "live": arguments.live,
        "placement": arguments.placement,
    }


def simulated_gpus(driver):
    match = re.search(r"x(\d+)$", driver)
    return int(match.group(1)) if match else 1


def make_environment(arguments):
    environment = dict(os.environ)
    environment["VMART_DRIVER"] = arguments.driver
    environment["VMART_BENCH_REPETITIONS"] = str(arguments.repetitions)
    if arguments.driver == "cuda":
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        ordinals = visible.split(",") if visible else [str(index) for index in range(64)]
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(ordinals[:arguments.gpus])
        if arguments.quick:
            environment.setdefault("VMART_BENCH_BYTES_MAX", str(1 << 30))
            environment.setdefault("VMART_BENCH_MOVES", "100")
    else:
        environment.setdefault("VMART_BENCH_BYTES_MAX", str(4 << 20))
        environment.setdefault("VMART_BENCH_MOVES", "20")
        environment.setdefault("VMART_BENCH_BATCHES", "2")
    return environment


class Runner:
    """Starts the processes one after another and gathers their samples."""
    scripts = BENCH

    def __init__(self, arguments, environment):
        self.build = pathlib.Path(arguments.build).resolve() / "bench"
        self.environment = environment
        self.step_limit = arguments.step_limit
        self.seconds = arguments.seconds
        self.deadline = time.monotonic() + arguments.budget
        self.results, self.failed, self.left_out, self.took = {}, [], [], {}

    def run(self, step, program, pattern):
        """One process of one step; whatever goes wrong is kept and the rest goes on."""
        if self.seconds_left() < max(5, self.took.get(step, 0)):
            self.left_out.append(step)
            return
        more = [f"--seconds={self.seconds}"] if program in ("live_bench", "placement_bench") else []
        reason, _ = self.process(step, lambda out: [*self.start(program), *benchmark_flags(pattern, out), *more],
                                 self.step_limit, self.gather)
        print(f"  {step}: {self.took[step]:.1f} s{': ' + reason if reason else ''}", flush=True)
        if reason and not reason.startswith("SKIPPED"):
            self.failed.append({"step": step, "reason": reason})

    def seconds_left(self):
        return self.deadline - time.monotonic()

    def process(self, step, command_of, limit_s, gather):
        """One process, which writes to the path that `command_of` gets and `gather` reads. Returns what went wrong,
        empty if nothing did, and the names of the samples that it gave."""
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            out, series = pathlib.Path(folder) / "out.json", pathlib.Path(folder) / "series.jsonl"
            reason = self._execute(command_of(out), min(limit_s, self.seconds_left()), series)
            names = gather(step, out)
            self._gather_series(series)
        self.took[step] = time.monotonic() - begin
        return reason, names

    def start(self, program):
        """A program of the build, or one of Python's that loads the library."""
        if not program.endswith(".py"):
            return [str(self.build / program)]
        return [sys.executable, "-B", str(self.scripts / program),
                str(self.build.parent / "runtime" / "libvmart.so")]

    def _execute(self, command, limit, series):
        """Returns what went wrong, empty if nothing did."""
        try:
            _, errors, status = run_text(command, {**self.environment, "VMART_BENCH_SERIES": str(series)}, limit)
        except OSError as error:
            return str(error)
        except RuntimeError as error:
            return f"HANG: {error}"
        lines = [line for line in errors.splitlines() if not line.startswith("***WARNING")]
        last = lines[-1] if lines else ""
        return last if status == SKIPPED else f"status {status}: {last}" if status else ""

    def gather(self, step, out):
        seen = set()
        for entry in read_entries(out):
            if entry.get("run_type") != "iteration":
                continue
            name = re.sub(r"/(iterations:|repeats:|manual_time|real_time|threads:).*$", "",
                          entry["name"])
            if entry.get("error_occurred"):
                self.failed.append({"step": step, "reason": f"{name}: {entry['error_message']}"})
                continue
            result = self.results.setdefault(
                name, {"name": name, "processes": 0, "samples_us": [], "counters": {}})
            if name not in seen:
                seen.add(name)
                result["processes"] += 1
            scale = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}[entry["time_unit"]]
            result["samples_us"].append(round(entry["real_time"] * scale, 4))
            for counter, value in entry.items():
                if is_counter(counter):
                    result["counters"].setdefault(counter, []).append(round(value, 3))
        return sorted(seen)

    def _gather_series(self, path):
        """Values of several processes follow each other; a course over time is one process's."""
        if not path.exists():
            return
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            result = self.results.get(entry.pop("name"))
            if result is None or "at_ms" in result.setdefault("series", {}):
                continue
            for name, values in entry.items():
                result["series"].setdefault(name, []).extend(round(value, 2) for value in values)


def benchmark_flags(pattern, out):
    return [f"--benchmark_filter={pattern}", f"--benchmark_out={out}", "--benchmark_out_format=json",
            "--benchmark_display_aggregates_only=true"]


def is_counter(name):
    return name.endswith(COUNTER_ENDINGS) or name in COUNTERS or "reason_" in name


def read_entries(out):
    """What a process wrote, also one that ended in the middle: then all but the last entry."""
    try:
        text = out.read_text()
    except OSError:
        return []
    for whole in (text, text.rstrip().rstrip(",") + "]}"):
        try:
            return json.loads(whole)["benchmarks"]
        except (ValueError, KeyError):
            continue
    return []


OPEN_COST_PROGRAMS = ("contexts", "runtime", "first_move sync", "first_move live", "first_move host")


def measure_open_cost(runner, count, rounds):
    """Times of the steps of `open_cost`, and used memory of each GPU while it stands at each step, seen from outside.
    Each first move needs a process of its own."""
    found = []
    chosen = [program for program in OPEN_COST_PROGRAMS
              for _ in range(rounds if program.startswith("first_move") else 1)]
    for program in chosen:
        command = [str(runner.build / "open_cost"), *program.split(), "--wait"]
        process = subprocess.Popen(command, env=runner.environment, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True, start_new_session=True)
        limit = threading.Timer(OPEN_COST_LIMIT_S, os.killpg, (process.pid, signal.SIGKILL))
        limit.start()
        try:
            for line in process.stdout:
                used = [row[0] for row in query_gpus("memory.used")][:count]  # None on a simulated machine.
                found.append({"program": program, **json.loads(line),
                              "used_mib": {f"gpu{index}": int(mib) for index, mib in enumerate(used)}})
                process.stdin.write("\n")
                process.stdin.flush()
            process.wait(timeout=30)
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            runner.failed.append({"step": "open_cost", "reason": str(error)})
        finally:
            limit.cancel()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.returncode:
            runner.failed.append({"step": "open_cost", "reason": f"status {process.returncode}"})
    return found


def rounds_of_steps(arguments, seed):
    """(round, step) in the order in which they run: shuffled in each round, long ones at the end."""
    chooser = random.Random(seed)
    steps, last_steps = STEPS, LAST_STEPS
    four_gpu_steps, last_four_gpu_steps = FOUR_GPU_STEPS, LAST_FOUR_GPU_STEPS
    if arguments.live:
        steps, last_steps = LIVE_STEPS, LIVE_LAST_STEPS
        four_gpu_steps, last_four_gpu_steps = LIVE_FOUR_GPU_STEPS, LIVE_LAST_STEPS
    if arguments.placement:
        steps, last_steps = PLACEMENT_STEPS, ()
    elif arguments.gpus > 2:
        steps = [step for step in steps if step[0] in four_gpu_steps]
        last_steps = last_four_gpu_steps
    if arguments.quick:
        steps = [step for step in steps if not step[0].endswith("_16")]
    if arguments.only:
        steps = [step for step in steps if re.search(arguments.only, step[0])]
    for last in (False, True):
        for number in range(arguments.rounds):
            chosen = [step for step in steps
                      if (step[0] in last_steps) == last and (step[3] == 0 or number < step[3])]
            chooser.shuffle(chosen)
            for step in chosen:
                yield number, step


def print_summary(document):
    measured = Measurements(document)
    context = document["context"]
    tables = (placement_figures if context.get("placement") else
              live_figures if context.get("live") else call_figures).TABLES
    for headers, rows_of in tables.values():
        if rows := rows_of(measured):
            print(table(headers, rows), end="\n\n")
    for failure in document["failed"]:
        print(f"FAILED {failure['step']}: {failure['reason']}")
    if document["left_out"]:
        print("left out for want of time:", ", ".join(sorted(set(document["left_out"]))))


def run_summary(runner, context, arguments, seed):
    overview = Overview(runner, benchmark_flags, context, arguments.summary)
    wanted = re.compile(arguments.only or "")
    begin = time.monotonic()
    overview.run([step for step in SUMMARY_STEPS if wanted.search(step.name())], random.Random(seed))
    context["seconds"] = round(time.monotonic() - begin)
    overview.write()
    overview.print_tables()
    for failure in runner.failed:
        print(f"FAILED {failure['step']}: {failure['reason']}")
    print(f"{context['seconds']} s, samples in {arguments.summary}")
    return 1 if runner.failed or runner.left_out else 0


def main():
    arguments = parse_arguments()
    gpus = query_gpus("name,driver_version")
    arguments.driver = arguments.driver or os.environ.get("VMART_DRIVER") or \
        ("cuda" if gpus else "sim:h200x2")
    simulated = arguments.driver != "cuda"
    if arguments.summary and gpus and not simulated:
        arguments.gpus = min(arguments.gpus, len(gpus))
    fill_in(arguments, simulated)
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10**6)
    context = context_of(arguments, gpus, seed)
    print(f"driver {arguments.driver}, {context['gpu_count']} GPUs, seed {seed}", flush=True)

    runner = Runner(arguments, make_environment(arguments))
    if arguments.summary:
        return run_summary(runner, context, arguments, seed)
    begin = time.monotonic()
    open_cost = []
    wants_open_cost = not (arguments.live or arguments.placement) and \
        (not arguments.only or re.search(arguments.only, "open_cost"))
    if wants_open_cost and context["gpu_count"] >= 2:
        open_cost = measure_open_cost(runner, context["gpu_count"], arguments.rounds)
    for number, (step, program, pattern, _) in rounds_of_steps(arguments, seed):
        print(f"round {number + 1}", end="", flush=True)
        runner.run(step, program, pattern)
    context["seconds"] = round(time.monotonic() - begin)
    document = {"context": context, "failed": runner.failed, "left_out": runner.left_out,
                "open_cost": open_cost,
                "results": [runner.results[name] for name in sorted(runner.results)]}
    if arguments.out:
        write_document(arguments.out, document, "results")
    print_summary(document)
    print(f"{context['seconds']} s" + (f", samples in {arguments.out}" if arguments.out else ""))
    return 1 if runner.failed else 0


if __name__ == "__main__":
    sys.exit(main())
