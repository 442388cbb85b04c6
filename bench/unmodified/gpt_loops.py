#!/usr/bin/env python3
"""Loops in PyTorch that know nothing of vmart. They print one line of JSON.

    gpt_loops.py train [--seconds S]     a GPT of 124 M parameters trains; milliseconds a step
    gpt_loops.py graph [--seconds S]     a CUDA graph serves it; milliseconds a request
    gpt_loops.py serve --log FILE [--ahead N] [--graph] [--gpu N] [--load FILE]

`serve` runs a model of 2.6 GiB until a line arrives on standard input. It prints its weights' addresses
when it begins, and writes to the log when each step was launched and when it ended (time.monotonic). If the
line is `save FILE`, it saves the weights there before it ends.
"""

import collections
import json
import pathlib
import statistics
import sys
import threading
import time

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))
import torch
from harness.gpt_block import Block
from harness.programs import parser_of
from torch import nn

SMALL = {"layers": 12, "width": 768, "heads": 12, "words": 50_304}
LARGE = {"layers": 12, "width": 3072, "heads": 24, "words": 16_384}
BATCH, TOKENS = 8, 512
SERVED_TOKENS = 512
LARGE_TOKENS = 1536  # Steps of 8 ms on an H200.


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, words):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, words):
        return self.norm(self.blocks(self.words(words)))

    def scores(self, words):
        return self(words) @ self.words.weight.t()


def make(shape, device="cuda"):
    torch.manual_seed(1)
    return Gpt(**shape).to(torch.bfloat16).to(device)


def windows_of(step, seconds, steps, warm_up):
    """Milliseconds a step, of each window of so many."""
    times = []
    for _ in range(warm_up):
        step()
    torch.cuda.synchronize()
    begin = time.monotonic()
    while len(times) < 5 or time.monotonic() < begin + seconds:
        window = time.monotonic()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        times.append((time.monotonic() - window) / steps * 1e3)
    return times


def train(arguments):
    model = make(SMALL)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    words = torch.randint(SMALL["words"], (BATCH, TOKENS + 1), device="cuda")

    def step():
        scores = model.scores(words[:, :-1])
        loss = nn.functional.cross_entropy(scores.reshape(-1, SMALL["words"]), words[:, 1:].reshape(-1))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()

    return windows_of(step, arguments.seconds, 10, 20)


def graph(arguments):
    model = make(SMALL).eval()
    words = torch.randint(SMALL["words"], (1, SERVED_TOKENS), device="cuda")
    request = torch.randint(SMALL["words"], (1, SERVED_TOKENS)).pin_memory()
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            model.scores(words)
        torch.cuda.current_stream().wait_stream(side)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            answer = model.scores(words)[:, -1].argmax(-1)

    def step():
        words.copy_(request, non_blocking=True)
        captured.replay()
        answer.cpu()  # Waits for the answer, as a server does.

    return windows_of(step, arguments.seconds, 100, 200)


class Steps:
    """Forward passes of which at most `ahead` are launched and not finished, and when each was."""

    def __init__(self, model, device, ahead, as_graph):
        self.ahead, self.under_way, self.log = ahead, collections.deque(), []
        words = torch.randint(LARGE["words"], (1, LARGE_TOKENS), device=device)
        with torch.no_grad():
            self.result = model(words)
            torch.cuda.synchronize()
            if as_graph:
                captured = torch.cuda.CUDAGraph()
                with torch.cuda.graph(captured):
                    self.result = model(words)
                self.launch = captured.replay
                return
        self.launch = lambda: self.forward(model, words)

    def forward(self, model, words):
        with torch.no_grad():
            self.result = model(words)

    def go(self):
        begun = time.monotonic()
        self.launch()
        event = torch.cuda.Event()
        event.record()
        self.under_way.append((begun, event))
        while len(self.under_way) >= self.ahead:
            begun, event = self.under_way.popleft()
            event.synchronize()
            self.log.append((begun, time.monotonic()))


def serve(arguments):
    device = torch.device("cuda", arguments.gpu)
    torch.cuda.set_device(device)
    if arguments.load:
        model = make(LARGE, "meta")
        model.load_state_dict(torch.load(arguments.load, map_location=device, mmap=True), assign=True)
    else:
        model = make(LARGE, device)
    model.eval()
    steps = Steps(model, device, arguments.ahead, arguments.graph)
    steps.go()
    told = []
    threading.Thread(target=lambda: told.append(sys.stdin.readline()), daemon=True).start()
    weights = list(model.parameters())
    print(json.dumps({"weights": [hex(weight.data_ptr()) for weight in weights],
                      "bytes": sum(weight.nbytes for weight in weights)}), flush=True)
    while not told:
        steps.go()
    torch.cuda.synchronize()
    if told[0].startswith("save "):
        torch.save(model.state_dict(), told[0].split()[1])
    with open(arguments.log, "w", encoding="utf-8") as file:
        json.dump({"steps": steps.log, "sum": float(steps.result.double().sum())}, file)


def main():
    parser = parser_of(__doc__)
    parser.add_argument("what", choices=("train", "graph", "serve"))
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--log")
    parser.add_argument("--ahead", type=int, default=1)
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--load")
    arguments = parser.parse_args()
    if arguments.what == "serve":
        serve(arguments)
        return
    times = {"train": train, "graph": graph}[arguments.what](arguments)
    print(json.dumps({f"{arguments.what}_ms": statistics.median(times), "windows": len(times)}))


if __name__ == "__main__":
    main()
