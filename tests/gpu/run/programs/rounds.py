"""Repeats work for a number of seconds, in one process, and prints what came out once.

However often it is repeated, a program that uses this prints the same, unless a round differs.
"""

import argparse
import faulthandler
import hashlib
import sys
import time

ROUNDS_MIN = 2  # Else a round has nothing to be compared with.


def seconds_to_run():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0)
    return parser.parse_known_args()[0].seconds


def digest(*parts):
    """Of tensors, of arrays of numpy, of bytes, or of anything that prints in one way."""
    result = hashlib.sha256()
    for part in parts:
        if hasattr(part, "detach"):
            part = part.detach().cpu().reshape(-1).view(sys.modules["torch"].uint8).numpy()
        result.update(part.tobytes() if hasattr(part, "tobytes") else
                      part if isinstance(part, bytes) else repr(part).encode())
    return result.hexdigest()[:16]


def repeat(work):
    """`work` returns what a round came to, as a text that is the same for each round."""
    faulthandler.enable()
    begin, seconds = time.monotonic(), seconds_to_run()
    first, number = None, 0
    while number < ROUNDS_MIN or time.monotonic() < begin + seconds:
        result = work()
        if first is None:
            first = result
        elif result != first:
            print(f"round {number}: {result}\nround 0: {first}", flush=True)
            sys.exit(1)
        number += 1
    print(first, flush=True)
    print(f"{number} rounds in {time.monotonic() - begin:.1f} s", file=sys.stderr, flush=True)
