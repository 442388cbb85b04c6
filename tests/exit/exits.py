#!/usr/bin/env python3
"""Starts processes that end in the middle of their moves, and looks at how they end.

exits.py [--count N] [--together N] [--limit S] [--budget S] [--above-idle MS] [--ways A,B] [--stops A,B]
         [--linger MS] [--output] PROGRAM [ARGUMENT...]

PROGRAM [ARGUMENT...] WAY MILLISECONDS prints "exits NANOSECONDS" (CLOCK_MONOTONIC) just before it exits.
Each process must end with 0 (by SIGABRT where it throws, by SIGKILL where it kills itself), write nothing to
standard error, and be gone within the limit; one that is not is killed and counts as hung. With --output each also leaves a trace, a
recording and decisions that can be read, and no socket. With --budget no process starts after so many
seconds, and it is a failure if that leaves some out. With --above-idle the median exit of the ways
`cancel` and `return` may take at most so much longer than that of `idle`, which has no moves: the exit of a
CUDA process takes its own time. Prints a row a way; exits with 1 if any failed.
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
import struct
import subprocess
import sys
import tempfile
import time
import zlib

WAYS = "idle,return,thread,cancel,callback,hook,late_user,quick,throw,fork,stand,kill,exec"
EXIT_SKIPPED = 77


def stacks(process):
    """Where the threads of a process that hangs stand, if a debugger is here."""
    if not shutil.which("gdb"):
        return "(no gdb here)"
    try:
        shown = subprocess.run(["gdb", "-p", str(process.pid), "-batch", "-ex", "thread apply all bt 12"],
                               capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return "(gdb took more than 120 s)"
    return shown.stdout[-20000:]


def communicate(process, limit):
    """Standard output and error, and what is wrong if it hangs. Nothing of its session is left behind."""
    try:
        return *process.communicate(timeout=limit), ""
    except subprocess.TimeoutExpired:
        wrong = "hung: " + stacks(process)
        os.killpg(process.pid, signal.SIGKILL)  # Its forked children have the pipes too.
        return *process.communicate(timeout=60), wrong
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def check_recording(path):
    """Raises ValueError unless it is a whole recording with a block at least (docs/reference/recordings.md)."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:8] != b"VMARTREC":
        raise ValueError("no recording")
    (machine_bytes,) = struct.unpack_from("<I", data, 12)
    at = 40 + machine_bytes
    if zlib.crc32(data[8:36] + data[40:at]) != struct.unpack_from("<I", data, 36)[0]:
        raise ValueError("the header is damaged")
    blocks = 0
    while at < len(data):
        if len(data) - at < 16:
            raise ValueError(f"it ends in the head of block {blocks}")
        marker, payload, _, crc = struct.unpack_from("<4sIII", data, at)
        end = at + 16 + payload
        if marker != b"VBLK" or end > len(data):
            raise ValueError(f"block {blocks} is torn")
        if zlib.crc32(data[at + 4:at + 12] + data[at + 16:end]) != crc:
            raise ValueError(f"block {blocks} is damaged")
        at, blocks = end, blocks + 1
    if blocks == 0:
        raise ValueError("nothing was recorded")


def check_decisions(path):
    """Raises ValueError unless each line can be read and one is of what the program did last."""
    with open(path, encoding="utf-8") as file:
        kinds = [json.loads(line)["kind"] for line in file]
    if "resumed" not in kinds:
        raise ValueError(f"no line says resumed: {kinds[-10:]}")


def check_output(folder, way):
    """What is wrong with the files that a process left."""
    if way in ("throw", "kill", "exec"):  # No exit.
        return []
    wrong = []
    if glob.glob(f"{folder}/*.sock*"):
        wrong.append("a socket is left")
    try:
        with open(f"{folder}/trace.json", encoding="utf-8") as file:
            entries = json.load(file)
        if way != "idle" and not any(entry.get("cat") == "move" for entry in entries):
            wrong.append("no move is in the trace")
    except (OSError, ValueError) as error:
        wrong.append(f"trace: {error}")
    recordings = glob.glob(f"{folder}/recording/*.rec")
    if len(recordings) != 1:
        wrong.append(f"recordings: {recordings}")
    for path in recordings:
        try:
            check_recording(path)
        except (OSError, ValueError, struct.error) as error:
            wrong.append(f"recording: {error}")
    try:
        check_decisions(f"{folder}/decisions.jsonl")
    except (OSError, ValueError, KeyError) as error:
        wrong.append(f"decisions: {error}")
    return wrong


def run_one(arguments, way, number):
    delay = random.Random(number).randrange(0, 60)
    with tempfile.TemporaryDirectory() as folder:
        ways, stops = arguments.ways.split(","), arguments.stops.split(",")
        environment = dict(os.environ) | {"VMART_STOP": stops[number // len(ways) % len(stops)]}
        if arguments.linger:
            environment["EXITING_LINGER_MS"] = str(arguments.linger)
        if arguments.output:
            environment |= {"VMART_TIMELINE": f"{folder}/trace.json", "VMART_RECORD": f"{folder}/recording",
                            "VMART_DECISIONS": f"{folder}/decisions.jsonl",
                            "VMART_CONTROL": f"{folder}/control.sock", "VMART_POLICY": "stay_put"}
        process = subprocess.Popen([*arguments.program, way, str(delay)], env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        out, err, hung = communicate(process, arguments.limit + arguments.start)
        wrong = [hung] if hung else []
        ended = time.monotonic_ns()
        if process.returncode == EXIT_SKIPPED:
            return {"way": way, "skipped": True}
        words = out.decode().split()
        took = (ended - int(words[words.index("exits") + 1])) / 1e6 if "exits" in words else None
        wanted = {"throw": -signal.SIGABRT, "kill": -signal.SIGKILL}.get(way, 0)
        if process.returncode != wanted and not hung:
            wrong.append(f"ended with {process.returncode}")
        if err:
            wrong.append("stderr: " + err.decode(errors="replace")[-2000:])
        if not hung and took is not None and took > arguments.limit * 1000:
            wrong.append(f"took {took:.0f} ms")
        if arguments.output and not hung:
            wrong += check_output(folder, way)
    return {"way": way, "ms": took, "status": process.returncode, "hung": bool(hung), "stderr": len(err),
            "wrong": wrong, "skipped": False}


def median_ms(ends, way):
    times = [end["ms"] for end in ends if way in ("all", end["way"]) and end["ms"] is not None]
    return statistics.median(times) if times else 0


def slow_ways(ends, above_idle):
    """What is wrong with the medians."""
    limit = median_ms(ends, "idle") + above_idle
    return [f"{way}: the median of its exits is {median_ms(ends, way):.1f} ms, at most {limit:.1f} ms is expected"
            for way in ("cancel", "return") if median_ms(ends, way) > limit]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--together", type=int, default=4)
    parser.add_argument("--limit", type=float, default=5, help="seconds that an exit may take")
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="S",
                        help="seconds after which no more processes are started")
    parser.add_argument("--above-idle", type=float, metavar="MS",
                        help="how much longer the median of cancel and return may be than that of idle")
    parser.add_argument("--start", type=float, default=60, help="seconds that a start may take")
    parser.add_argument("--ways", default=WAYS)
    parser.add_argument("--stops", default="gate,suspend", help="what stops the program's work, in turns")
    parser.add_argument("--linger", type=int, default=0)
    parser.add_argument("--output", action="store_true")
    parser.add_argument("program", nargs="+")
    arguments = parser.parse_args()
    ways = arguments.ways.split(",")
    last_start = time.monotonic() + arguments.budget

    def run_in_time(number):
        return run_one(arguments, ways[number % len(ways)], number) if time.monotonic() < last_start else None

    with concurrent.futures.ThreadPoolExecutor(arguments.together) as pool:
        ends = [end for end in pool.map(run_in_time, range(arguments.count)) if end is not None]
    if any(end["skipped"] for end in ends):
        print("skipped: this machine lacks what the program needs")
        return EXIT_SKIPPED
    print(f"{'way':<10} {'runs':>5} {'median ms':>10} {'max ms':>8} {'bad status':>10} {'hung':>5} "
          f"{'stderr bytes':>12}")
    for way in [*ways, "all"]:
        rows = [end for end in ends if way in ("all", end["way"])]
        times = [end["ms"] for end in rows if end["ms"] is not None] or [0]
        bad = sum(any(text.startswith("ended with") for text in end["wrong"]) for end in rows)
        print(f"{way:<10} {len(rows):>5} {median_ms(ends, way):>10.1f} {max(times):>8.1f} {bad:>10} "
              f"{sum(end['hung'] for end in rows):>5} {sum(end['stderr'] for end in rows):>12}")
    failed = [end for end in ends if end["wrong"]]
    for end in failed[:10]:
        print(f"{end['way']}: " + "; ".join(end["wrong"]))
    print(f"{len(failed)} of {len(ends)} ended wrongly")
    slow = [] if arguments.above_idle is None else slow_ways(ends, arguments.above_idle)
    for text in slow:
        print(text)
    if len(ends) < arguments.count:
        print(f"{arguments.count - len(ends)} of {arguments.count} were not started within {arguments.budget:.0f} s")
    return 1 if failed or slow or len(ends) < arguments.count else 0


if __name__ == "__main__":
    sys.exit(main())
