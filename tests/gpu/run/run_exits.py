#!/usr/bin/env python3
"""Ends programs under `vmart run` in the middle of moves, in all ways that a program can end.

    run_exits.py BUILD PROGRAM [--count 200] [--for SECONDS] [--jobs 8] [--limit 20] [--seed 1]

PROGRAM is that of tests/run, or programs/exits.cu for the ways `launching` and `daemons`. It works, and a migrator outside moves its memory without a pause. After a random
time it is told to end, killed by SIGINT, SIGTERM or SIGKILL, becomes another program by exec, or has forked
all the while. Each must end within the limit and as it would without vmart, write nothing to standard error,
and leave no process. Also counts how many had begun to move. With --for, none begins after that time, and the
summary says how many were played. Leaves with 77 without a driver.
"""

import argparse
import collections
import concurrent.futures
import math
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

from moving import Migrator
from playing import describe, environment, kill_session, members, no_core
from run_programs import EXIT_SKIPPED, gpu_count

# Way: what the program does, the signal that ends it, and its exit code.
WAYS = {"close": ("stream", None, 0), "streams": ("streams", None, 0), "graph": ("graph", None, 0),
        "forks": ("forks", None, 0), "exec": ("exec", None, 0),
        "launching": ("launching", None, 0), "daemons": ("daemons", None, 0),
        **{name: ("stream", getattr(signal, name), -getattr(signal, name))
           for name in ("SIGINT", "SIGTERM", "SIGKILL")}}
BEGIN_S = 120  # A context on each of many GPUs, with others beside.
MOVE_S = 30
PROGRESS = 25  # After so many plays, one line on standard error.


def begin(command, folder):
    """The program, once it says that it works."""
    errors = open(pathlib.Path(folder) / "errors", "w+")
    process = subprocess.Popen(
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
        env=environment({"XDG_RUNTIME_DIR": folder, "VMART_STALL_BUDGET_US": "0"}),
        start_new_session=True, preexec_fn=no_core)
    too_late = threading.Timer(BEGIN_S, kill_session, (process.pid, signal.SIGKILL))
    too_late.start()
    text = ""
    while not text.endswith("ready\n"):
        line = process.stdout.readline()
        if not line:
            break
        text += line
    too_late.cancel()
    return process, errors, text


def end(process, way):
    number = WAYS[way][1]
    if number is None:
        process.stdin.close()
    else:
        process.send_signal(number)


def wait(process, limit_s):
    """Returns where it hangs, or an empty text."""
    try:
        process.wait(limit_s)
        return ""
    except subprocess.TimeoutExpired:
        return describe(process.pid)


def play(vmart, program, way, seed, limit_s):
    """Returns how many moves had happened, the seconds that the end took, and what was wrong."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="vmart-") as folder:
        migrator = Migrator(folder, vmart, seed)
        process, errors, text = begin([vmart, "run", "--", program, "linked", WAYS[way][0]], folder)
        deadline = time.monotonic() + MOVE_S
        while migrator.finished() < 1 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.1))  # Anywhere within a move.
        begun = time.monotonic()
        end(process, way)
        hang = wait(process, limit_s)
        took = time.monotonic() - begun
        left = members(process.pid) if not hang else []
        kill_session(process.pid, signal.SIGKILL)
        process.wait()
        text += process.stdout.read()
        tally = migrator.stop()
        errors.seek(0)
        wrong = [] if not hang else [f"hangs\n{hang}"]
        wrong += problems(way, process.returncode, text, errors.read(), left) if not hang else []
        errors.close()
        return tally.moves, took, wrong


def problems(way, code, text, errors, left):
    wrong = []
    if "ready\n" not in text:
        wrong.append(f"did not begin to work within {BEGIN_S} s: {text[-300:]}")
    elif code != WAYS[way][2]:
        wrong.append(f"exit {code}, not {WAYS[way][2]}; it printed: {text[-300:]}")
    elif code == 0 and "sum " not in text:
        wrong.append(f"no result: {text[-300:]}")
    if errors.strip():
        wrong.append(f"on standard error: {errors[-500:]}")
    if left:
        wrong.append(f"left processes {left}")
    return wrong


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--for", dest="for_s", metavar="SECONDS", type=float, default=math.inf,
                        help="none begins after that time")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--limit", type=float, default=20, help="seconds that an end may take")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ways", type=lambda text: text.split(","), default=list(WAYS))
    return parser.parse_args()


class Count:
    """What came out of the plays. `one(way, seed)` plays one, and returns what `play` does."""

    def __init__(self, options):
        self.options, self.rows, self.failures = options, collections.defaultdict(list), 0

    def played(self):
        return sum(map(len, self.rows.values()))

    def play_all(self, one):
        options, begun = self.options, time.monotonic()

        def in_time(way, seed):
            return one(way, seed) if time.monotonic() - begun < options.for_s else None

        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            plays = {}
            for i in range(options.count):
                way, seed = options.ways[i % len(options.ways)], options.seed + i
                plays[pool.submit(in_time, way, seed)] = way, seed
            for done in concurrent.futures.as_completed(plays):
                if done.result() is not None:
                    self.take(*plays[done], *done.result())

    def take(self, way, seed, moves, took, wrong):
        self.rows[way].append((moves, took))
        self.failures += bool(wrong)
        for one in wrong:
            print(f"{way}, seed {seed}: {one}", flush=True)
        if self.played() % PROGRESS == 0:
            print(f"{self.played()} of {self.options.count} played, {self.failures} failed", file=sys.stderr,
                  flush=True)

    def show(self):
        """Prints the summary. Returns whether all is well."""
        for way, runs in self.rows.items():
            print(f"{way:8} {len(runs)} runs, {sum(moves > 0 for moves, _ in runs)} had moved, "
                  f"the end took {max(took for _, took in runs):.2f} s at most")
        still = sum(moves == 0 for runs in self.rows.values() for moves, _ in runs)
        print(f"{self.played()} of {self.options.count} played, {self.failures} failed, {still} without a move")
        return self.failures == 0 and still <= self.played() // 10 and self.played() > 0


def main():
    options = parse_arguments()
    if gpu_count() == 0:
        print("SKIPPED: there is no GPU")
        return EXIT_SKIPPED
    vmart, program = options.build.resolve() / "runtime/tools/vmart", options.program.resolve()
    count = Count(options)
    count.play_all(lambda way, seed: play(vmart, program, way, seed, options.limit))
    return 0 if count.show() else 1


if __name__ == "__main__":
    sys.exit(main())
