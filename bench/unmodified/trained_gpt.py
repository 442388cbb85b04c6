#!/usr/bin/env python3
"""Trains a GPT in PyTorch that knows nothing of vmart, with the same losses in each run.

    trained_gpt.py --log FILE [--steps N] [--layers N] [--width N] [--tokens N] [--device cuda]

Trains until a line arrives on standard input, or for so many steps. Prints a line of JSON when it begins,
after a few steps. Writes to the log when each step began and ended (time.monotonic), and its loss.
"""

import argparse
import json
import os
import sys
import threading
import time

import torch
from gpt_loops import LARGE, Gpt
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

WARM_UP, BATCHES = 3, 4


class Training:
    """Steps on a few batches, in turn."""

    def __init__(self, arguments):
        torch.manual_seed(1)
        shape = {**LARGE, "layers": arguments.layers, "width": arguments.width}
        shape["heads"] = max(1, arguments.width // 128)
        self.words = shape["words"]
        self.model = Gpt(**shape)
        nn.init.normal_(self.model.words.weight, std=0.02)  # So that the first loss is that of a guess.
        self.model = self.model.to(torch.bfloat16).to(arguments.device)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.batches = [self.batch(arguments) for _ in range(BATCHES)]
        self.steps, self.losses = [], []

    def batch(self, arguments):
        """Words as rows for a product, whose backward pass adds in one order, and the words that follow."""
        words = torch.randint(self.words, (1, arguments.tokens + 1))
        rows = nn.functional.one_hot(words[:, :-1], self.words).to(torch.bfloat16)
        return rows.to(arguments.device), words[:, 1:].reshape(-1).to(arguments.device)

    def step(self):
        begun = time.monotonic()
        rows, following = self.batches[len(self.steps) % BATCHES]
        weight = self.model.words.weight
        scores = self.model.norm(self.model.blocks(rows @ weight)) @ weight.t()
        loss = nn.functional.cross_entropy(scores.reshape(-1, self.words).float(), following)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        self.losses.append(loss.item())  # Waits for the step.
        self.steps.append((begun, time.monotonic()))


def be_exact():
    """Sums are added in one order, whatever runs beside them."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)  # With warn_only, flash attention adds in any order.


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", required=True)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--layers", type=int, default=LARGE["layers"])
    parser.add_argument("--width", type=int, default=LARGE["width"])
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    be_exact()
    training, told = Training(arguments), []
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # Its backward pass can be exact.
        for _ in range(WARM_UP):
            training.step()
        weights = list(training.model.parameters())
        print(json.dumps({"weights": [hex(weight.data_ptr()) for weight in weights],
                          "bytes": sum(weight.nbytes for weight in weights)}), flush=True)
        if not arguments.steps:
            threading.Thread(target=lambda: told.append(sys.stdin.readline()), daemon=True).start()
        while not told and not 0 < arguments.steps <= len(training.steps):
            training.step()
    with open(arguments.log, "w", encoding="utf-8") as file:
        json.dump({"steps": training.steps, "losses": training.losses}, file)


if __name__ == "__main__":
    main()
