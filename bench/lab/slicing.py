#!/usr/bin/env python3
"""Does it matter into how many accesses a trace cuts the same work?

    bench/lab/slicing.py VMART-LAB TRACE... [--slice S]... [--policy P]... [options of a replay]

Each open-loop trace is replayed with its accesses whole, and with every access that has a duration cut
into accesses of at most S seconds (default 0.05 and 1), with the same bytes in all, of which each waits
for the one before. Prints the time of accesses and moves over that of the first policy. The exit status is 1 if two policies that differ
by more than 5 % in one slicing have another order in another one. A program's work is the same however
finely it was recorded, so a model in which this fails is wrong.
"""

import argparse
import heapq
import itertools
import json
import math
import pathlib
import subprocess
import sys
import tempfile

DIFFERENCE = 0.05


def slices_of(event, slice_ns):
    """The access as accesses of at most `slice_ns`."""
    duration = event.get("duration_ns", 0)
    count = max(1, math.ceil(duration / slice_ns))
    passes = event.get("passes", 1) / count
    for number in range(count):
        begin, end = duration * number // count, duration * (number + 1) // count
        yield {**event, "time_ns": event["time_ns"] + begin, "duration_ns": end - begin, "passes": passes}


def as_task(access, number, before, request):
    """A slice as a task that waits for the one before."""
    task = {"event": "task", "time_ns": access["time_ns"], "task": number, "request": request}
    if access["duration_ns"] > 0:
        task["compute_ns"] = access["duration_ns"]
    if "device" in access:
        task["device"] = access["device"]
    if before:
        task["after"] = [before]
    return task, {**{key: value for key, value in access.items() if key != "duration_ns"}, "task": number}


def sliced(events, slice_ns):
    """All events in order of time. The slices of an access are tasks, each after the one before, as
    a program would wait; all that had one task are one request, and happen on one device."""
    waiting, order = [], itertools.count()
    last_use, requests = {}, {}
    for event in events:
        number = next(order)
        if event["event"] == "free":  # Not before the last slice is declared.
            event = {**event, "time_ns": max(event["time_ns"], last_use.pop(event["object"], 0))}
        if event["event"] != "access":
            heapq.heappush(waiting, (event["time_ns"], number, 0, event))
            continue
        request = requests.setdefault(event.get("task") or ("access", number), len(requests) + 1)
        for place, each in enumerate(slices_of(event, slice_ns)):
            last_use[event["object"]] = max(last_use.get(event["object"], 0), each["time_ns"])
            heapq.heappush(waiting, (each["time_ns"], number, place, (each, request)))
    tasks = itertools.count(1)
    before = {}
    while waiting:
        _, number, _, event = heapq.heappop(waiting)
        if isinstance(event, dict):
            yield event
            continue
        access, request = event
        task = next(tasks)
        yield from as_task(access, task, before.get(number), request)
        before[number] = task


def read(lab, trace, folder):
    """The header and the events of a trace in any form."""
    lines = folder / "whole.jsonl"
    subprocess.run([lab, "convert", "trace", trace, lines], check=True, capture_output=True)
    with open(lines) as file:
        header, *events = (json.loads(line) for line in file)
    if any(event["event"] == "task" for event in events):
        sys.exit(f"{trace} is a closed loop: convert it with closed=0")
    return header, events


def cost_of(lab, trace, policy, options):
    done = subprocess.run([lab, "replay", trace, "--policy", policy, "--json", *options], check=True,
                          capture_output=True, text=True)
    return json.loads(done.stdout)["metrics"]["access_move_s"]


def reversals(costs):
    """The pairs of policies that differ by more than DIFFERENCE in one slicing and have another order
    in another. `costs`: by slicing, by policy."""
    found = set()
    for one, other in itertools.permutations(next(iter(costs.values())), 2):
        ratios = [of[one] / of[other] for of in costs.values()]
        if min(ratios) < 1 / (1 + DIFFERENCE) and max(ratios) > 1:
            found.add(tuple(sorted((one, other))))
    return sorted(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lab")
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--slice", type=float, action="append", help="seconds")
    parser.add_argument("--policy", action="append")
    given, options = parser.parse_known_args()
    policies = given.policy or ["static", "cost_benefit", "auto"]
    slices = given.slice or [0.05, 1.0]
    failed = False
    for trace in given.traces:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            header, events = read(given.lab, trace, folder)
            costs = {}
            for slice_s in [None, *slices]:
                path = folder / "sliced.jsonl"
                cut = sliced(events, sys.maxsize if slice_s is None else round(slice_s * 1e9))
                path.write_text("".join(json.dumps(line) + "\n" for line in ({**header, "vmart_trace": 2}, *cut)))
                of = {policy: cost_of(given.lab, path, policy, options) for policy in policies}
                costs[slice_s] = of
                first = of[policies[0]]
                shown = "  ".join(f"{policy} {cost / first:.4f}" for policy, cost in of.items())
                way = "whole" if slice_s is None else f"{slice_s:g} s"
                print(f"{trace}, {way}: {first:.3f} s; {shown}", flush=True)
        for one, other in reversals(costs):
            failed = True
            print(f"{trace}: {one} and {other} change their order")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
