#!/usr/bin/env python3
"""Programs in PyTorch whose weights may take more than HBM has. They know nothing of vmart, and print one line of JSON.

    beyond_hbm.py cyclic|experts|drift|phases|tables [--seconds S] [--layers N] [--mib N]

There are N weights of so many MiB, by default 160 of 64, and each step multiplies a batch by some of them:

    cyclic   8 weights in a cycle over all of them, as inference layer by layer
    experts  8, drawn by Zipf's law (exponent 1.2) over a random order of the weights, as tokens draw experts
    drift    as experts, with a new order each third of the time
    phases   8 in a cycle over a third of the weights; another third of them each third of the time
    tables   gathers 2 048 rows of each of 8 weights drawn as by `experts`, as features draw embeddings

Prints the steps of each second, their mean from the second second on, and a digest of the results of 64 steps before,
which does not depend on where the weights lie. The same 64 steps follow at the end, after all moves; where they
have another digest, it is printed, too.
"""

import argparse
import hashlib
import json
import random
import statistics
import time

import torch

WIDTH, BATCH, ROWS = 4096, 256, 2048
AT_ONCE, EXPONENT, PARTS = 8, 1.2, 3
DIGESTED = 64
PATTERNS = ("cyclic", "experts", "drift", "phases", "tables")


class Draws:
    """Which weights a step uses. `part` counts the thirds of the time."""

    def __init__(self, pattern, count):
        self.pattern, self.count, self.steps = pattern, count, 0
        self.random = random.Random(1)
        self.chances = [1 / (rank + 1) ** EXPONENT for rank in range(count)]
        self.orders = [self.random.sample(range(count), count) for _ in range(PARTS)]

    def of_step(self, part):
        first, self.steps = self.steps * AT_ONCE, self.steps + 1
        if self.pattern == "cyclic":
            return [(first + number) % self.count for number in range(AT_ONCE)]
        if self.pattern == "phases":
            third = self.count // PARTS
            return [part * third + (first + number) % third for number in range(AT_ONCE)]
        order = self.orders[part if self.pattern == "drift" else 0]
        return self.random.choices(order, self.chances, k=AT_ONCE)


def weights_of(count, mib):
    """The same wherever they lie: each is made on the GPU from a seed of its own."""
    generator = torch.Generator("cuda")
    made = []
    for number in range(count):
        generator.manual_seed(number)
        rows = (mib << 20) // (2 * WIDTH)
        made.append(torch.empty([rows, WIDTH], dtype=torch.bfloat16, device="cuda").normal_(0.0, 0.02, generator=generator))
    return made


def multiply(weights, state):
    for weight in weights:
        state = torch.nn.functional.rms_norm(state + (state @ weight.t()) @ weight, [WIDTH])
    return state


def gather(weights, rows):
    total = torch.zeros([BATCH, WIDTH], dtype=torch.float32, device="cuda")
    for weight in weights:
        total += weight[rows % weight.shape[0]].view(-1, BATCH, WIDTH).float().sum(0)
    return total


class Program:
    """One pattern over some weights."""

    def __init__(self, pattern, weights):
        self.pattern, self.weights = pattern, weights
        generator = torch.Generator("cuda").manual_seed(1)
        self.state = torch.randn([BATCH, WIDTH], dtype=torch.bfloat16, device="cuda", generator=generator)
        self.rows = torch.randint(1 << 30, [ROWS], device="cuda", generator=generator)

    def step(self, part):
        used = [self.weights[number] for number in self.draws.of_step(part)]
        return gather(used, self.rows) if self.pattern == "tables" else multiply(used, self.state)

    def digest(self):
        """Of the same steps at each call, which use weights of all parts."""
        self.draws, digest = Draws(self.pattern, len(self.weights)), hashlib.sha256()
        for number in range(DIGESTED):
            digest.update(self.step(number * PARTS // DIGESTED).view(torch.uint8).cpu().numpy().tobytes())
        return digest.hexdigest()

    def each_second(self, seconds):
        """The steps of each whole second."""
        counts = [0] * int(seconds)
        begin = time.monotonic()
        while (now := time.monotonic() - begin) < len(counts):
            self.step(int(now * PARTS / len(counts)))
            torch.cuda.synchronize()
            counts[int(now)] += 1
        return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", choices=PATTERNS)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--layers", type=int, default=160)
    parser.add_argument("--mib", type=int, default=64, help="of each weight")
    arguments = parser.parse_args()
    with torch.no_grad():
        weights = weights_of(arguments.layers, arguments.mib)
        program = Program(arguments.pattern, weights)
        digest = program.digest()  # Loads the kernels, too.
        counts = program.each_second(arguments.seconds)
        if (after := program.digest()) != digest:
            digest = f"{digest}; {after} after the moves"
    print(json.dumps({"steps_s": statistics.mean(counts[1:]), "each_second": counts, "digest": digest, "weights_bytes": sum(weight.nbytes for weight in weights),
                      "reserved_bytes": torch.cuda.max_memory_reserved()}))


if __name__ == "__main__":
    main()
