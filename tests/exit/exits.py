#!/usr/bin/env python3
"""Starts processes that end in the middle of their moves, and looks at how they end.

exits.py [--count N] [--together N] [--limit S] [--ways A,B] [--linger MS] [--output] PROGRAM [ARGUMENT...]

PROGRAM [ARGUMENT...] WAY MILLISECONDS prints "exits NANOSECONDS" (CLOCK_MONOTONIC) just before it exits.
Each process must end with 0 (by SIGABRT where it throws), write nothing to standard error, and be gone
within the limit; one that is not is killed and counts as hung. With --output each also leaves a trace, a
recording and decisions that can be read, and no socket. Prints a row a way; leaves with 1 if any failed.
"""

import argparse
import concurrent.futures
import glob
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

WAYS = "idle,return,thread,cancel,callback,hook,late_user,quick,throw,fork"
EXIT_SKIPPED = 77


def stacks(process):
    """Where the threads of a process that hangs stand, if a debugger is here."""
    if not shutil.which("gdb"):
        return "(no gdb here)"
    shown = subprocess.run(["gdb", "-p", str(process.pid), "-batch", "-ex", "thread apply all bt 12"],
                           capture_output=True, text=True, timeout=120, check=False)
    return shown.stdout[-20000:]


def check_output(folder, way):
    """What is wrong with the files that a process left."""
    if way == "throw":  # No exit.
        return []
    wrong = []
    if glob.glob(f"{folder}/*.sock*"):
        wrong.append("a socket is left")
    try:
        with open(f"{folder}/trace.json", encoding="utf-8") as file:
            entries = json.load(file)
        if way not in ("idle",) and not any(entry.get("cat") == "move" for entry in entries):
            wrong.append("no move is in the trace")
    except (OSError, ValueError) as error:
        wrong.append(f"trace: {error}")
    recordings = glob.glob(f"{folder}/recording/*.rec")
    if len(recordings) != 1 or os.path.getsize(recordings[0]) < 100:
        wrong.append(f"recordings: {recordings}")
    return wrong


def run_one(arguments, way, number):
    delay = random.Random(number).randrange(0, 60)
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        if arguments.linger:
            environment["EXITING_LINGER_MS"] = str(arguments.linger)
        if arguments.output:
            environment |= {"VMART_TRACE": f"{folder}/trace.json", "VMART_RECORD": f"{folder}/recording",
                            "VMART_DECISIONS": f"{folder}/decisions.jsonl",
                            "VMART_CONTROL": f"{folder}/control.sock", "VMART_POLICY": "stay_put"}
        process = subprocess.Popen([*arguments.program, way, str(delay)], env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wrong, hung = [], False
        try:
            out, err = process.communicate(timeout=arguments.limit + arguments.start)
        except subprocess.TimeoutExpired:
            hung = True
            wrong.append("hung: " + stacks(process))
            process.kill()
            out, err = process.communicate()
        ended = time.monotonic_ns()
        if process.returncode == EXIT_SKIPPED:
            return {"way": way, "skipped": True}
        words = out.decode().split()
        took = (ended - int(words[words.index("exits") + 1])) / 1e6 if "exits" in words else None
        wanted = -signal.SIGABRT if way == "throw" else 0
        if process.returncode != wanted and not hung:
            wrong.append(f"ended with {process.returncode}")
        if err:
            wrong.append("stderr: " + err.decode(errors="replace")[-2000:])
        if not hung and took is not None and took > arguments.limit * 1000:
            wrong.append(f"took {took:.0f} ms")
        if arguments.output and not hung:
            wrong += check_output(folder, way)
    return {"way": way, "ms": took, "status": process.returncode, "hung": hung, "stderr": len(err),
            "wrong": wrong, "skipped": False}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--together", type=int, default=4)
    parser.add_argument("--limit", type=float, default=5, help="seconds that an exit may take")
    parser.add_argument("--start", type=float, default=60, help="seconds that a start may take")
    parser.add_argument("--ways", default=WAYS)
    parser.add_argument("--linger", type=int, default=0)
    parser.add_argument("--output", action="store_true")
    parser.add_argument("program", nargs="+")
    arguments = parser.parse_args()
    ways = arguments.ways.split(",")
    with concurrent.futures.ThreadPoolExecutor(arguments.together) as pool:
        ends = list(pool.map(lambda n: run_one(arguments, ways[n % len(ways)], n), range(arguments.count)))
    if any(end["skipped"] for end in ends):
        print("skipped: the program says that this machine has not what it needs")
        return EXIT_SKIPPED
    print(f"{'way':<10} {'runs':>5} {'median ms':>10} {'max ms':>8} {'bad status':>10} {'hung':>5} "
          f"{'stderr bytes':>12}")
    for way in [*ways, "all"]:
        rows = [end for end in ends if way in ("all", end["way"])]
        times = [end["ms"] for end in rows if end["ms"] is not None] or [0]
        bad = sum(any(text.startswith("ended with") for text in end["wrong"]) for end in rows)
        print(f"{way:<10} {len(rows):>5} {statistics.median(times):>10.1f} {max(times):>8.1f} {bad:>10} "
              f"{sum(end['hung'] for end in rows):>5} {sum(end['stderr'] for end in rows):>12}")
    failed = [end for end in ends if end["wrong"]]
    for end in failed[:10]:
        print(f"{end['way']}: " + "; ".join(end["wrong"]))
    print(f"{len(failed)} of {len(ends)} ended wrongly")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
