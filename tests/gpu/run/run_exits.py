#!/usr/bin/env python3
"""Ends programs under `vmart run` in the middle of moves, in all ways that a program can end.

    run_exits.py BUILD PROGRAM [--count 200] [--jobs 8] [--limit 20] [--seed 1]

PROGRAM is that of tests/run. It works, and a mover outside moves its memory without a pause. After a random
time it is told to end, killed by SIGINT, SIGTERM or SIGKILL, becomes another program by exec, or has forked
all the while. Each must end within the limit and as it would without vmart, write nothing to standard error,
and leave no process. Also counts how many had begun to move. Leaves with 77 without a driver.
"""

import argparse
import collections
import concurrent.futures
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

from moving import Mover
from playing import describe, environment, kill_session, members, no_core
from run_programs import EXIT_SKIPPED, gpu_count

# Way: what the program does, the signal that ends it, and its exit code.
WAYS = {"close": ("stream", None, 0), "streams": ("streams", None, 0), "graph": ("graph", None, 0),
        "forks": ("forks", None, 0), "exec": ("exec", None, 0),
        **{name: ("stream", getattr(signal, name), -getattr(signal, name))
           for name in ("SIGINT", "SIGTERM", "SIGKILL")}}
BEGIN_S = 120  # A context on each of many GPUs, with others beside.
MOVE_S = 30


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
        mover = Mover(folder, vmart, seed)
        process, errors, text = begin([vmart, "run", "--", program, "linked", WAYS[way][0]], folder)
        deadline = time.monotonic() + MOVE_S
        while mover.finished() < 1 and process.poll() is None and time.monotonic() < deadline:
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
        tally = mover.stop()
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
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--limit", type=float, default=20, help="seconds that an end may take")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ways", type=lambda text: text.split(","), default=list(WAYS))
    return parser.parse_args()


def main():
    options = parse_arguments()
    if gpu_count() == 0:
        print("SKIPPED: there is no GPU")
        return EXIT_SKIPPED
    vmart = options.build.resolve() / "runtime/tools/vmart"
    rows, failures = collections.defaultdict(list), 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        plays = {pool.submit(play, vmart, options.program.resolve(),
                             options.ways[i % len(options.ways)], options.seed + i, options.limit): i
                 for i in range(options.count)}
        for done in concurrent.futures.as_completed(plays):
            number = plays[done]
            way = options.ways[number % len(options.ways)]
            moves, took, wrong = done.result()
            rows[way].append((moves, took))
            failures += bool(wrong)
            for one in wrong:
                print(f"{way}, seed {options.seed + number}: {one}", flush=True)
    for way, runs in rows.items():
        print(f"{way:8} {len(runs)} runs, {sum(moves > 0 for moves, _ in runs)} had moved, "
              f"the end took {max(took for _, took in runs):.2f} s at most")
    still = sum(moves == 0 for runs in rows.values() for moves, _ in runs)
    print(f"{options.count} runs, {failures} failed, {still} without a move")
    return 1 if failures or still > options.count // 10 else 0


if __name__ == "__main__":
    sys.exit(main())
