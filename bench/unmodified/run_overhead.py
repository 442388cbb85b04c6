#!/usr/bin/env python3
"""What `vmart run` costs programs that know nothing of it, and what their moves come to.

    run_overhead.py BUILD [--cases launches,training,graph,allocations,policy,move,drift,standstill,capacity]
                          [--pairs 4] [--built FOLDER] [--out FILE.json] [--measure-only]
                          [--shapes 8x128,64x1] [--programs launches,training,graph,cyclic,…] [--seconds 12]

FOLDER (BUILD/programs) has the programs of bench/unmodified, compiled by tests/gpu/run/build_programs.sh.

    launches, training, graph, allocations
                the program bare and under `vmart run`, in turn, with nothing moving: medians of the runs
    policy      --programs: `launches`, `training`, `graph`, the patterns of beyond_hbm.py with HBM for 0.8 of their
                weights, and two of `experts` at once, under `vmart run --policy auto` against no policy, in turn:
                no pace below 0.98 of that without, and first results as bare
    move        a model of 2.6 GiB moves to the other GPU and back beside its loop: against two backlogs
                and 40 ms. A backlog is how long a step takes from its launch to its end meanwhile
    drift       GPU 1 reads 1 GiB on GPU 0 under --policy auto: when its rate reaches 0.95 of a local one
    standstill  the longest time without a step while the model moves: by vmart, by the driver's checkpoints
                of a whole process, and by saving it, ending and starting again on the other GPU
    capacity    inference with 1.25 times the weights that HBM may have (--capacity): tokens a second with the
                rest on the other GPU and on the host, without a policy and with auto, beside all in HBM and
                weights that `accelerate` offloads. 8x128 are eight sequences of 128 tokens. The rest is
                4 GiB of 20: where host memory is slow to grow, more would take long to put there

Needs an idle machine. Prints a row for each figure with its bar; leaves with 1 if one is missed (not with
--measure-only), with 77 without PyTorch and two GPUs. One GPU is enough for `--cases policy` and `--cases capacity`: then the
rest is at the host.
"""

import concurrent.futures
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[1:1] = [str(ROOT / "bench"), str(ROOT / "tests/gpu/run")]
from checkpoints import Checkpoints, Refused
from harness.programs import parser_of, skip
from playing import environment
from run_programs import gpu_count
from served_model import Places, ServedModel, gap_of, latencies_of

LOOPS = str(ROOT / "bench/unmodified/gpt_loops.py")
OVERSUBSCRIBED = str(ROOT / "bench/unmodified/oversubscribed.py")
BEYOND_HBM = str(ROOT / "bench/unmodified/beyond_hbm.py")
CASES = ("launches", "training", "graph", "allocations", "policy", "move", "drift", "standstill", "capacity")
ON_ONE_GPU = {"policy", "capacity"}
TWO = "two"  # Programs at once, of the pattern `experts`.
PROGRAMS = ("launches", "training", "graph", "cyclic", "experts", "drift", "phases", "tables", TWO)
LIMIT_S = 180
MOVE_EXTRA_S = 0.040  # On top of two backlogs.
LOCAL_SHARE, STAYS, DRIFT_S = 0.95, 0.9, 2.0
SHORTER_BY = 10
OVERSUBSCRIBED_BY = 1.25
CAPACITY_EXTRA = 64 << 20  # For what vmart itself needs, and allocations that PyTorch rounds up.
ONE_GPU = {"CUDA_VISIBLE_DEVICES": "0", "VMART_DEVICES": "0"}
AUTO = ("--policy", "auto")
PACE_MIN = 0.98  # Of a program with the policy, against the same without.
# Where what is above the limit goes: name, environment, options.
LIMITED = (("gpu1", {}, ()), ("gpu1, auto", {}, AUTO), ("host", ONE_GPU, ()), ("host, auto", ONE_GPU, AUTO))
LOOK_S = 0.2


class Bench:
    """Runs cases and keeps their rows."""

    def __init__(self, options):
        self.options, self.rows, self.samples = options, [], {}
        self.vmart = options.build.resolve() / "runtime/tools/vmart"
        self.built = (options.built or options.build / "programs").resolve()

    def row(self, name, value, unit, bar, is_met, note=""):
        self.rows.append({"name": name, "value": value, "unit": unit, "bar": bar, "met": is_met,
                          "note": note})
        state = {True: "met", False: "MISSED", None: "-"}[is_met]
        print(f"{name:34} {value:10.4g} {unit:8} {bar:22} {state:7} {note}", flush=True)
        if self.options.out:
            text = json.dumps({"rows": self.rows, "samples": self.samples}, indent=1)
            self.options.out.write_text(text, encoding="utf-8")

    def figures(self, command, under, *options, changes=None, looks=None):
        """The JSON that a program prints as its last line. Adds to `looks` where its memory was."""
        with tempfile.TemporaryDirectory(prefix="vmart-") as folder:
            start = [str(self.vmart), "run", *options, "--"] if under else []
            places = Places(folder, LOOK_S) if looks is not None else None
            done = subprocess.run([*start, *command], stdin=subprocess.DEVNULL, capture_output=True,
                                  env=environment({"XDG_RUNTIME_DIR": folder, **(changes or {})}),
                                  text=True, timeout=LIMIT_S, check=False)
            if places is not None:
                looks += [look for _, look in places.end()]
        if done.returncode != 0:
            raise RuntimeError(f"{command}: exit {done.returncode}: {done.stderr[-800:]}")
        for line in done.stderr.splitlines():
            if line.startswith("vmart run: "):
                print(f"    {line}")
        return json.loads(done.stdout.strip().splitlines()[-1])

    def in_turn(self, run):
        """What `run(False)` and `run(True)` give, as often as asked for: they alternate so that drift hits both."""
        found = {False: [], True: []}
        for number in range(self.options.pairs):
            first = number % 2 == 1
            for side in (first, not first):
                found[side].append(run(side))
        return found[False], found[True]

    def beside_bare(self, case, command):
        """Figures of bare runs and of those under vmart."""
        bare, under = self.in_turn(lambda is_under: self.figures(command, is_under))
        self.samples[case] = {"bare": bare, "vmart": under}
        return bare, under

    def overhead(self, case, command, figure, percent_max):
        bare, under = self.beside_bare(case, command)
        medians = [statistics.median(run[figure] for run in runs) for runs in (bare, under)]
        spread = ", ".join(f"{name} {min(run[figure] for run in runs):.4g} to "
                           f"{max(run[figure] for run in runs):.4g}"
                           for name, runs in (("bare", bare), ("vmart", under)))
        cost = (medians[1] / medians[0] - 1) * 100
        self.row(f"{case}: slower", cost, "%", f"<= {percent_max} %", cost <= percent_max,
                 f"{figure}: {medians[0]:.4g} bare, {medians[1]:.4g} vmart ({spread})")

    def launches(self):
        self.overhead("launches", [str(self.built / "launch_loop"), "3"], "launch_us", 1)

    def training(self):
        self.overhead("training", [sys.executable, LOOPS, "train", "--seconds", "4"], "train_ms", 1)

    def graph(self):
        self.overhead("graph", [sys.executable, LOOPS, "graph", "--seconds", "4"], "graph_ms", 0.5)

    def policy(self):
        """With one GPU visible, so that what does not fit is at the host."""
        loops = {"launches": ([str(self.built / "launch_loop"), "3"], lambda run: 1 / run["launch_us"]),
                 "training": ([sys.executable, LOOPS, "train", "--seconds", "6"], lambda run: 1 / run["train_ms"]),
                 "graph": ([sys.executable, LOOPS, "graph", "--seconds", "6"], lambda run: 1 / run["graph_ms"])}
        for program in self.options.programs.split(","):
            if program in loops:
                command, pace = loops[program]
                self.paces(program, lambda *options, of=command: [self.figures(of, True, *options, changes=ONE_GPU)], pace)
            else:
                self.beyond_hbm(program)

    def beyond_hbm(self, program):
        pattern, count = ("experts", 2) if program == TWO else (program, 1)
        command = [sys.executable, "-B", BEYOND_HBM, pattern, "--seconds"]
        bare = self.figures([*command, "3"], False, changes=ONE_GPU)
        _, limit = self.limit_of(bare)

        def at_once(*options):
            with concurrent.futures.ThreadPoolExecutor(count) as threads:
                runs = [threads.submit(self.figures, [*command, str(self.options.seconds)], True, "--capacity", f"gpu0={limit}", *options,
                                       changes=ONE_GPU) for _ in range(count)]
            runs = [run.result() for run in runs]
            if any(run["digest"] != bare["digest"] for run in runs):
                raise RuntimeError(f"{program}: other results than bare")
            return runs

        self.paces(program, at_once, lambda run: run["steps_s"])

    def paces(self, name, at_once, pace):
        """The geometric mean of the programs that run at once, with the policy and without, in turn."""
        runs = self.in_turn(lambda has_policy: at_once(*(AUTO if has_policy else ())))
        without, auto = ([statistics.geometric_mean(map(pace, together)) for together in side] for side in runs)
        self.samples[f"policy: {name}"] = {"without": runs[0], "auto": runs[1]}
        ratio = statistics.median(auto) / statistics.median(without)
        self.row(f"policy: {name}", ratio, "x", f">= {PACE_MIN}", ratio >= PACE_MIN,
                 f"without {min(without):.4g} to {max(without):.4g}, auto {min(auto):.4g} to {max(auto):.4g}")

    @staticmethod
    def limit_of(bare):
        """How many bytes of the weights HBM may have, and of all memory, so that the weights do not fit."""
        kept = int(bare["weights_bytes"] / OVERSUBSCRIBED_BY)
        return kept, kept + bare["reserved_bytes"] - bare["weights_bytes"] + CAPACITY_EXTRA

    def allocations(self):
        bare, under = self.beside_bare("allocations", [str(self.built / "allocate_loop"), "1000"])
        for figure in bare[0]:
            before, after = (statistics.median(run[figure] for run in runs) for runs in (bare, under))
            self.row(f"allocations: {figure[:-3]}", after, "us", f"< {before:.4g} bare", after < before)

    def move(self):
        for as_graph in (False, True):
            for ahead in (1, 4, 16):
                self.move_beside(as_graph, ahead)

    def move_beside(self, as_graph, ahead):
        name = f"move: {'graph' if as_graph else 'eager'}, {ahead} ahead"
        took, backlogs = [], []
        with ServedModel(self.vmart, LOOPS, ahead, as_graph) as model:
            windows = [model.move_to(place) for _ in range(self.options.moves)
                       for place in ("gpu1", "gpu0")]
            log = model.end()
        for begin, end in windows:
            took.append(end - begin)
            backlogs.append(statistics.median(latencies_of(log["steps"], begin, end)))
        self.samples[name] = {"took_s": took, "backlog_s": backlogs, "bytes": model.bytes}
        excess = statistics.median(one - 2 * backlog for one, backlog in zip(took, backlogs))
        self.row(name, excess * 1e3, "ms", "<= 40 over 2 backlogs", excess <= MOVE_EXTRA_S,
                 f"{statistics.median(took) * 1e3:.1f} ms (worst {max(took) * 1e3:.1f}), backlog "
                 f"{statistics.median(backlogs) * 1e3:.1f} ms, {model.bytes / 2**30:.2f} GiB")

    def drift(self):
        command = [str(self.built / "far_reader"), "6"]
        for under in (False, True):
            runs = [self.figures(command, under, *(["--policy", "auto"] if under else []))
                    for _ in range(3)]
            self.samples["drift, vmart" if under else "drift, bare"] = runs
            times = [self.local_after(run) for run in runs]
            worst = max(times)
            last = statistics.median(run["reads"][-1][1] / run["local_bytes_s"] for run in runs)
            bar, met = (f"<= {DRIFT_S} s", worst <= DRIFT_S) if under else ("", None)
            self.row(f"drift: local after, {'auto' if under else 'bare'}", worst, "s", bar, met,
                     f"at the end {last:.3f} of local; each run {[round(one, 2) for one in times]}")

    @staticmethod
    def local_after(run):
        """Seconds until a read is as fast as a local one and nine of ten after it are, too."""
        fast = [rate >= LOCAL_SHARE * run["local_bytes_s"] for _, rate in run["reads"]]
        for number, (seconds, _) in enumerate(run["reads"]):
            if fast[number] and statistics.mean(fast[number:]) >= STAYS:
                return seconds
        return float("inf")

    def standstill(self):
        with ServedModel(self.vmart, LOOPS, 1, False) as model:
            windows = [model.move_to(place) for place in ("gpu1", "gpu0", "gpu1", "gpu0")]
            steps = model.end()["steps"]
        gaps = [gap_of(steps, *window) for window in windows]
        ours = statistics.median(gaps)
        self.samples["standstill"] = {"vmart_s": gaps}
        self.row("standstill: vmart", ours * 1e3, "ms", "", None, "the longest step, of it a usual one "
                 f"{statistics.median(latencies_of(steps, 0, windows[0][0])) * 1e3:.1f} ms")
        rivals = [("restart", self.restart())]
        try:
            rivals.append(("checkpoint", self.checkpoint()))
        except (Refused, OSError, RuntimeError) as error:
            print(f"    no checkpoints here: {error}", flush=True)
        for name, theirs in rivals:
            self.samples["standstill"][f"{name}_s"] = theirs
            self.row(f"standstill: {name}", theirs * 1e3, "ms", f">= {SHORTER_BY} x vmart",
                     theirs >= SHORTER_BY * ours, f"{theirs / ours:.1f} x")

    def restart(self):
        """From the last step on GPU 0 to the first on GPU 1, through memory that is a file."""
        with tempfile.TemporaryDirectory(prefix="vmart-", dir="/dev/shm") as folder:
            saved = f"{folder}/model"
            with ServedModel(None, LOOPS, 1, False) as model:
                time.sleep(1)  # Steps of a usual length.
                last = model.end(f"save {saved}")["steps"][-1][1]
            with ServedModel(None, LOOPS, 1, False, "--load", saved, "--gpu", "1") as model:
                first = model.end()["steps"][0][1]
        return first - last

    @staticmethod
    def checkpoint():
        checkpoints = Checkpoints()
        with ServedModel(None, LOOPS, 1, False) as model:
            time.sleep(1)
            begin = time.monotonic()
            checkpoints.swap_gpus(model.process_id())
            end = time.monotonic()
            time.sleep(1)  # So that a step ends afterwards.
            return gap_of(model.end()["steps"], begin, end)

    def capacity(self):
        command = [sys.executable, "-B", OVERSUBSCRIBED, "--shapes", self.options.shapes]
        bare = self.figures(command, False)
        kept, limit = self.limit_of(bare)
        self.samples["capacity"] = {"limit_bytes": limit, "bare": bare}
        self.capacity_rows("bare", bare, bare, None)
        rival = None
        if importlib.util.find_spec("accelerate") is None:
            print("    accelerate is not installed", flush=True)
        else:
            rival = self.figures([*command, "--offload-above", str(kept)], False, changes=ONE_GPU)
            self.samples["capacity"]["accelerate"] = rival
            self.capacity_rows("accelerate", rival, bare, rival)
        failed = []
        for name, changes, policy in LIMITED:
            if gpu_count() < 2 and changes != ONE_GPU:
                continue
            looks = []
            try:
                run = self.figures(command, True, "--capacity", f"gpu0={limit}", *policy, changes=changes,
                                   looks=looks)
            except (RuntimeError, subprocess.TimeoutExpired) as error:  # The others go on.
                failed.append(f"{name}: {error}")
                continue
            run["places"] = max(looks, key=lambda look: sum(look.values()), default={})
            self.samples["capacity"][name] = run
            self.capacity_rows(name, run, bare, rival)
        if failed:
            raise RuntimeError("\n".join(failed))

    def capacity_rows(self, name, run, bare, rival):
        """A row for each shape. The outputs must be those of the bare run."""
        where = ", ".join(f"{place} {size / 2**30:.2f} GiB" for place, size in run.get("places", {}).items()
                          if size) or f"peak {run['peak_bytes'] / 2**30:.2f} GiB"
        for shape, rate in run["tokens_s"].items():
            note = f"{rate / bare['tokens_s'][shape]:.3f} of bare, "
            note += f"{rate / rival['tokens_s'][shape]:.2f} x accelerate, " if rival else ""
            self.row(f"capacity: {name}, {shape}", rate, "tokens/s", "output as bare",
                     run["digest"] == bare["digest"], note + where)


def parse_arguments():
    parser = parser_of(__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--moves", type=int, default=4, help="of the model, in each direction")
    parser.add_argument("--built", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--shapes", default="8x128,64x1", help="of inference: sequences x tokens")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="of the case policy")
    parser.add_argument("--seconds", type=float, default=12, help="of programs beyond HBM")
    parser.add_argument("--measure-only", action="store_true", help="a missed bar is no error")
    return parser.parse_args()


def main():
    options = parse_arguments()
    gpus = 1 if set(options.cases.split(",")) <= ON_ONE_GPU else 2
    if gpu_count() < gpus or importlib.util.find_spec("torch") is None:
        return skip(f"this needs PyTorch and {gpus} GPUs")
    bench, failed = Bench(options), []
    for case in options.cases.split(","):
        try:
            getattr(bench, case)()
        except Exception as error:  # The other cases go on.
            print(f"{case}: {type(error).__name__}: {error}", flush=True)
            failed.append(case)
    missed = not options.measure_only and any(row["met"] is False for row in bench.rows)
    return 1 if failed or missed else 0


if __name__ == "__main__":
    sys.exit(main())
