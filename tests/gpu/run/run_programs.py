#!/usr/bin/env python3
"""Real programs under `vmart run`: each runs bare, then under `vmart run` with nothing moving, then
with everything moving at random. All runs must end in the same way and print the same.

    run_programs.py BUILD [NAME...] [--seconds 60] [--jobs 4] [--out FILE.json]

BUILD is the build folder with `vmart`. NAME chooses programs by a part of their names; --list shows
them. Ours are in programs/. build_programs.sh compiles those in CUDA C++, and those that others wrote,
into --built; a program that is not there is left out. Leaves with 77 without GPUs, with 1 if a program
failed or if nothing moved in one whose memory should.
"""

import argparse
import concurrent.futures
import json
import pathlib
import platform
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import asdict, dataclass, field

import comparing
import program_list
import programs_table
import versions
from moving import Migrator, Tally
from playing import play

EXIT_SKIPPED = 77
MODES = ("bare", "still", "moving")
HERE = pathlib.Path(__file__).resolve().parent
printing = threading.Lock()


@dataclass
class Result:
    """What came out for a program. `verdict` is empty while all is well."""

    name: str
    verdict: str = ""
    details: str = ""
    runs: dict = field(default_factory=dict)  # Of each mode: how many.
    seconds: dict = field(default_factory=dict)
    asides: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    moves: int = 0
    bytes: int = 0
    operations: int = 0
    failed: int = 0
    stuck: int = 0
    by_tool: int = 0
    processes_moved: int = 0
    reasons: dict = field(default_factory=dict)
    compared: int = 0  # Lines of the output, or tests, that had to be the same.
    commit: str = ""  # Of vmart; empty if nobody knows.
    gpu: str = ""
    version: str = ""  # What `versions` calls the program's kind.
    driver_version: str = ""
    cuda_version: str = ""
    system: str = ""
    date: str = ""

    def fail(self, verdict, details):
        if not self.verdict:
            self.verdict, self.details = verdict, details

    def take(self, tally):
        for name in ("moves", "bytes", "operations", "failed", "stuck", "by_tool",
                     "processes_moved"):
            setattr(self, name, getattr(tally, name))
        self.reasons = dict(tally.reasons.most_common(5))


class Harness:
    """Plays programs. Called from one thread for each of them."""

    def __init__(self, vmart, places, options):
        self.vmart, self.places, self.options = vmart, places, options
        known = versions.versions()
        self.versions = known
        self.machine = {"gpu": versions.gpus(), "driver_version": known.get("driver", ""),
                        "cuda_version": versions.cuda_version(), "system": platform.platform()}

    def command(self, program, mode):
        seconds = self.options.seconds if mode == "moving" else self.options.still_seconds
        values = {"python": sys.executable, "seconds": str(seconds), **self.places}
        command = [part.format(**values) for part in program.command]
        if mode == "bare":
            return command
        smallest = ["--min", program.smallest] if program.smallest else []
        return [self.vmart, "run", *smallest, *program.options, "--", *command]

    def once(self, program, mode, number, tally):
        """One run, whose sockets lie in a folder of their own."""
        with tempfile.TemporaryDirectory(prefix="vmart-") as folder:
            changes = {**program.environment, "XDG_RUNTIME_DIR": folder}
            if self.options.stop and mode != "bare":
                changes["VMART_STOP"] = self.options.stop
            migrator = None
            if mode == "moving":
                changes["VMART_STALL_BUDGET_US"] = "0"  # As many moves as there is time for.
                migrator = Migrator(folder, self.vmart, f"{self.options.seed} {program.name} {number}",
                              program.hosts)
            limit_s = program.limit_s + (self.options.seconds if mode == "moving" else
                                         self.options.still_seconds)
            outcome = play(self.command(program, mode), changes, limit_s,
                           program.folder.format(**self.places))
            if migrator is not None:
                tally.add(migrator.stop())
            return outcome

    def play(self, program):
        kind = programs_table.find_kind(program.name)
        result = Result(program.name, commit=self.options.commit, date=time.strftime("%Y-%m-%d", time.gmtime()),
                        version=self.versions.get(kind.version, "") if kind else "", **self.machine)
        try:
            self.play_modes(program, result)
        except Exception:  # Of the harness itself. The other programs go on.
            result.fail("the harness failed", traceback.format_exc())
        return result

    def play_modes(self, program, result):
        tally = Tally()
        bare = self.once(program, "bare", 0, tally)
        self.note(result, "bare", bare)
        result.compared = compared(program, bare)
        if bare.exit is None:
            result.fail("hangs bare", bare.hang)
        elif program.exit is not None and bare.exit != program.exit:
            result.fail(f"bare: exit {bare.exit}", tail(bare))
        elif comparing.is_unjudged(program, bare):
            result.fail("bare: nothing to compare", tail(bare))
        for mode in self.options.modes:
            if mode != "bare" and not result.verdict:
                self.play_under(program, mode, bare, result, tally)
        result.take(tally)
        if "moving" in self.options.modes and program.moves and tally.moves == 0:
            result.fail("nothing moved", "\n".join(result.reasons) or "no socket, or no allocation")
        if tally.stuck:
            result.fail("a move is stuck", "\n".join(result.reasons))

    def play_under(self, program, mode, bare, result, tally):
        end = time.monotonic() + (self.options.seconds if mode == "moving" else 0)
        number = 0
        while number == 0 or (program.repeats and time.monotonic() < end):
            outcome = self.once(program, mode, number, tally)
            number += 1
            self.note(result, mode, outcome)
            if outcome.exit is None:
                return result.fail(f"{mode}: hangs", outcome.hang + "\n" + tail(outcome))
            if comparing.difference(program, bare, outcome):
                program = self.settle(program, mode, bare, outcome, result)
                if program is None:
                    return None
        return None

    def settle(self, program, mode, bare, outcome, result):
        """What a second bare run prints otherwise, too, says nothing about vmart. Returns the program as it is
        compared from now on, or None if it has failed."""
        again = self.once(program, "bare", 1, Tally())
        self.note(result, "bare", again)
        looser = comparing.settled(program, bare, again)
        different = comparing.difference(looser or program, bare, outcome)
        if looser is not None and not different:
            result.notes.append(f"two bare runs differ, so {mode} is compared by what they share")
            result.compared = compared(looser, bare)
            return looser
        verdict = f"{mode}: differs" + (", as two bare runs do" if looser is None else "")
        result.fail(verdict, different + "\n" + tail(outcome))
        return None

    def note(self, result, mode, outcome):
        result.runs[mode] = result.runs.get(mode, 0) + 1
        result.seconds[mode] = round(result.seconds.get(mode, 0) + outcome.seconds, 1)
        result.asides += [line for line in outcome.asides if line not in result.asides]


def compared(program, bare):
    return len(comparing.view(program, bare)) - 1  # The first line is the exit code.


def tail(outcome):
    return f"stdout ends: {outcome.out[-600:]}\nstderr ends: {outcome.errors[-1500:]}"


def play_all(harness, programs, out):
    """Programs beside each other. The file is written after each, so that a crash loses little."""
    results = []
    with concurrent.futures.ThreadPoolExecutor(harness.options.jobs) as pool:
        for done in concurrent.futures.as_completed(
                [pool.submit(harness.play, program) for program in programs]):
            results.append(done.result())
            show(results[-1])
            if out:
                pathlib.Path(out).write_text(
                    json.dumps({"seconds": harness.options.seconds, "seed": harness.options.seed,
                                "stop": harness.options.stop,
                                "versions": harness.versions,
                                "programs": [asdict(one) for one in results]}, indent=1))
    return results


def show(result):
    with printing:
        print(f"{result.name:26} {result.verdict or 'same':28} {times(result)}, "
              f"{result.moves} moves, {result.bytes / 1e9:.1f} GB, "
              f"{result.failed} of {result.operations} operations failed", flush=True)
        for line in result.asides[:3] + result.notes[:2]:
            print(f"    {line}")
        if result.verdict:
            print("    " + result.details.replace("\n", "\n    "), flush=True)


def times(result):
    return ", ".join(f"{mode} {result.runs[mode]} x {result.seconds[mode] / result.runs[mode]:.1f} s"
                     for mode in MODES if mode in result.runs)


def table(results):
    rows = ["| program | result | runs | moves | GB | operations | failed | processes |",
            "|---|---|---|---|---|---|---|---|"]
    for one in sorted(results, key=lambda result: result.name):
        rows.append(f"| {one.name} | {one.verdict or 'same'} | {times(one)} | {one.moves} | "
                    f"{one.bytes / 1e9:.1f} | {one.operations} | {one.failed} | "
                    f"{one.processes_moved} |")
    return "\n".join(rows)


def gpu_count():
    return len(versions.gpu_names())


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="parts of names; no:PART leaves such out")
    parser.add_argument("--seconds", type=float, default=60, help="at least, with memory moving")
    parser.add_argument("--still-seconds", type=float, default=2, help="of other runs, if repeated")
    parser.add_argument("--jobs", type=int, default=4, help="how many programs run at once")
    parser.add_argument("--modes", default="bare,still,moving", type=lambda text: text.split(","))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stop", choices=("gate", "suspend"), help="VMART_STOP; default: as vmart chooses")
    parser.add_argument("--built", type=pathlib.Path, help="what build_programs.sh made; BUILD/programs")
    parser.add_argument("--suites", type=pathlib.Path, help="tests of others: cupy/tests, pytorch/test")
    parser.add_argument("--out", help="JSON")
    parser.add_argument("--commit", default=versions.commit(),
                        help="what BUILD was built from, for --out (default: the commit of this checkout)")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    options.built = options.built or options.build / "programs"
    options.suites = options.suites or options.build / "suites"
    return options


def main():
    options = parse_arguments()
    places = {"programs": str(HERE / "programs"),
              "built": str(options.built.resolve()), "suites": str(options.suites.resolve())}
    gpus = gpu_count()
    chosen, left_out = program_list.choose(options.names, places, gpus)
    for name, why in left_out if gpus else ():
        print(f"left out: {name}: {why}", flush=True)
    if options.list:
        print("\n".join(program.name for program in chosen))
        return 0
    if not chosen:
        print("SKIPPED: there is no GPU, or no program that can run here")
        return EXIT_SKIPPED
    if options.out and not options.commit:
        print("the results will name no commit: there is no git folder, and no --commit", flush=True)
    vmart = options.build.resolve() / "runtime/tools/vmart"
    results = play_all(Harness(vmart, places, options), chosen, options.out)
    print(table(results))
    return 1 if any(one.verdict for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
