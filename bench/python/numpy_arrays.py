#!/usr/bin/env python3
"""What NumPy's functions cost on arrays of `vmart.numpy`, beside NumPy's own arrays in the same run; and
the first touch of 64 MiB in HBM: directly after the allocation, and once the host memory that the
runtime creates for it in the background is ready.

The two kinds take turns, a hundred times, and each row is the ratio of their fastest rounds: what
disturbs the machine disturbs single rounds of both. VMART_DRIVER selects the machine. On a simulated
one, the first touch is the time of the simulation on this computer.
"""

import statistics
import sys
import time
import timeit

import numpy

import vmart

ROUNDS = 100
TOUCHED = 64 << 20


def fastest(statement, arrays, number):
    best = [float("inf")] * len(arrays)
    timers = [timeit.Timer(statement, globals={"a": array, "numpy": numpy}) for array in arrays]
    for _ in range(ROUNDS):
        for which, timer in enumerate(timers):
            best[which] = min(best[which], timer.timeit(number) / number)
    return best


def cached_at_hosts():
    return sum(place.cached_bytes for place in vmart.stats().places if place.at.kind == "host")


def trim_hosts():
    """Ends what is made ahead, too."""
    for place in vmart.stats().places:
        if place.at.kind == "host":
            vmart.trim(place.at)


def await_memory_made_ahead():
    """For at most ten seconds."""
    give_up = time.monotonic() + 10
    while cached_at_hosts() < TOUCHED:
        if time.monotonic() > give_up:
            sys.exit(f"only {cached_at_hosts()} bytes of host memory were made ahead, not {TOUCHED}")
        time.sleep(0.0002)


def first_touch(ready):
    """Seconds from the first load of a walk over 64 MiB in HBM to its last, in ten rounds. None of them
    has host memory of an earlier one."""
    taken = []
    for _ in range(10):
        trim_hosts()
        array = vmart.numpy.zeros(TOUCHED // 8, at="gpu0")
        if ready:
            await_memory_made_ahead()
        begin = time.perf_counter()
        array[:: 4096 // 8].sum()
        taken.append(time.perf_counter() - begin)
        del array
    return taken


def main():
    print(f"{vmart.description()}, NumPy {numpy.__version__}, Python {sys.version.split()[0]}")
    print(f"{'':32} {'NumPy':>12} {'vmart.numpy':>12} {'ratio':>7}")
    for count, number in ((8, 20000), (4096, 5000), (1 << 20, 10)):
        arrays = [made(count) for made in (numpy.zeros, vmart.numpy.zeros)]
        for statement in ("numpy.add(a, 1.0, out=a)", "a[0] = a[1]"):
            own, ours = fastest(statement, arrays, number)
            print(f"{count:8} {statement:23} {own * 1e9:9.1f} ns {ours * 1e9:9.1f} ns {ours / own:7.3f}")
    for ready, when in ((False, "directly after its allocation"), (True, "once host memory is made ahead")):
        taken = first_touch(ready)
        print(
            f"first touch of 64 MiB in HBM, {when}: {statistics.median(taken) * 1e3:.2f} ms median of "
            f"{len(taken)}, {max(taken) * 1e3:.2f} ms the longest"
        )


if __name__ == "__main__":
    main()
