#!/usr/bin/env python3
"""Does it matter into how many accesses a trace cuts the same work?

    bench/lab/slicing.py VMART-LAB TRACE... [--slice S]... [--policy P]... [options of a replay]

Each open-loop trace is replayed with its accesses whole, and with every access that has a duration cut
into accesses of at most S seconds (default 0.05 and 1), which cover the same bytes in the same order, and of
which each waits for the one before. Prints the time of accesses and moves over that of the first policy. The
exit status is 1 if two policies that differ by more than 5 % in one slicing have another order in another one.
A program's work is the same however finely it was recorded, so a model in which this fails is wrong.

The router (--router) must not look at how long accesses are, as `prefix` does: the same work has to be on the
same GPUs. The default is `round_robin`.
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
WORK_DIFFERENCE = 1e-3


def slices_of(event, slice_ns):
    """The access as accesses of at most `slice_ns`, each of what the access covers in that time: the
    rest of a pass, whole passes, the beginning of another pass."""
    duration, passes = event.get("duration_ns", 0), event.get("passes", 1)
    count = max(1, math.ceil(duration / slice_ns))
    if count == 1:
        yield event
        return
    ends = [passes * number / count for number in range(1, count)] + [passes]
    ends += [pass_end(end) for end in ends for pass_end in (math.floor, math.ceil)]
    begin = 0
    for end in sorted({end for end in ends if 0 < end <= passes}):
        yield from covered(event, begin, end, passes)
        begin = end


def covered(event, begin, end, passes):
    """What the access covers from pass `begin` to pass `end`, if that is anything."""
    start, duration, size = event["time_ns"], event.get("duration_ns", 0), event["bytes"]
    from_ns, to_ns = (round(duration * at / passes) for at in (begin, end))
    part = {**event, "time_ns": start + from_ns, "duration_ns": to_ns - from_ns}
    first = math.floor(begin)
    if end - first > 1:  # Whole passes.
        yield {**part, "passes": end - begin}
        return
    low, high = (round(size * (at - first)) for at in (begin, end))
    if high > low:
        yield {**part, "offset": event.get("offset", 0) + low, "bytes": high - low, "passes": 1}


def as_task(access, number, before, request):
    """A slice as a task that waits for the one before."""
    task = {"event": "task", "time_ns": access["time_ns"], "task": number, "request": request}
    if access.get("duration_ns", 0) > 0:
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
    last_use, requests, objects = {}, {}, {}
    for event in events:
        number = next(order)
        if event["event"] == "alloc":  # An object that tasks use has a number of its own.
            objects[event["object"]] = number + 1
        if "object" in event:
            event = {**event, "object": objects.get(event["object"], event["object"])}
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


def replayed(lab, trace, policy, options):
    """The time of accesses and moves, and the bytes accessed by each device."""
    done = subprocess.run([lab, "replay", trace, "--policy", policy, "--json", *options], check=True,
                          capture_output=True, text=True)
    report = json.loads(done.stdout)
    return report["metrics"]["access_move_s"], [device["bytes"] for device in report["devices"]]


def same_work(one, other):
    """Whether devices access the same bytes, but for what rounding costs."""
    return all(math.isclose(left, right, rel_tol=WORK_DIFFERENCE) for left, right in zip(one, other))


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
    parser.add_argument("--router", default="round_robin")
    given, options = parser.parse_known_args()
    options += ["--router", given.router]
    policies = given.policy or ["static", "cost_benefit", "auto"]
    slices = given.slice or [0.05, 1.0]
    failed = False
    for trace in given.traces:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            header, events = read(given.lab, trace, folder)
            costs, work = {}, None
            for slice_s in [None, *slices]:
                path = folder / "sliced.jsonl"
                cut = sliced(events, sys.maxsize if slice_s is None else round(slice_s * 1e9))
                path.write_text("".join(json.dumps(line) + "\n" for line in ({**header, "vmart_trace": 2}, *cut)))
                runs = {policy: replayed(given.lab, path, policy, options) for policy in policies}
                work = work or runs[policies[0]][1]
                if not all(same_work(work, bytes_by_device) for _, bytes_by_device in runs.values()):
                    sys.exit(f"{trace}: the router does not give each device the same work if it is cut")
                of = costs[slice_s] = {policy: cost for policy, (cost, _) in runs.items()}
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
