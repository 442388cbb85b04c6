#!/usr/bin/env python3
"""Training of a transformer like GPT, eagerly and by replays of a CUDA graph: plain PyTorch, the same with parameters and
states of Adam in memory of vmart where nothing moves, and with all of them moving at random.

    torch_overhead.py [--rounds 4] [--steps 40] [--json FILE]

Each mode has a process of its own, plain and vmart in turns. A process times blocks of steps and takes their median; the
ratio is that of the medians of processes. All losses are compared to the last bit, those of the third mode too. The bar: with
nothing moving, vmart costs at most 1 %. Leaves with 77 without PyTorch, vmart and two GPUs.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.programs import parser_of, skip

BAR_PERCENT = 1.0
LAYERS, WIDTH, HEADS, WORDS = 12, 1024, 16, 16_384  # 184 million parameters.
ROWS, TOKENS = 4, 512
WARM, BLOCKS = 10, 5
MODES = ("plain", "vmart", "moving")
WAYS = ("eager", "graph")


def make_model(torch):
    from harness.gpt_block import Block
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(TOKENS, WIDTH)
            self.blocks = nn.Sequential(*(Block(WIDTH, HEADS) for _ in range(LAYERS)))
            self.last = nn.Linear(WIDTH, WORDS, bias=False)

        def forward(self, words):
            return self.last(self.blocks(self.words(words) + self.places.weight))

    torch.manual_seed(1)
    return Model().to(torch.bfloat16)


class Training:
    """Steps of one model, and their losses."""

    def __init__(self, torch, memory):
        self.torch, self.memory = torch, memory
        with memory():
            self.model = make_model(torch).cuda()
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, capturable=True)
        self.words = torch.randint(WORDS, (ROWS, TOKENS + 1), device="cuda")

    def step(self):
        self.optimizer.zero_grad(set_to_none=False)
        with self.torch.nn.attention.sdpa_kernel(self.torch.nn.attention.SDPBackend.FLASH_ATTENTION):
            guessed = self.model(self.words[:, :-1]).float()
        loss = self.torch.nn.functional.cross_entropy(guessed.flatten(0, 1), self.words[:, 1:].flatten())
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def first_step(self):
        with self.memory():  # The states of Adam are made.
            return self.step()

    def tensors(self):
        states = [value for state in self.optimizer.state.values() for value in state.values()]
        return [tensor for tensor in (*self.model.parameters(), *states) if tensor.is_cuda]


class Moves:
    """Some tensors at a time, chosen at random, to a place chosen at random."""

    def __init__(self, vmart, tensors):
        self._vmart, self._tensors = vmart, tensors
        self._choice, self._running = random.Random(7), None
        self.count, self.bytes = 0, 0

    def go_on(self):
        if self._running is not None:
            if not self._running.done():
                return
            self.wait()
        some = self._choice.sample(self._tensors, 6)
        self._running = self._vmart.migrate_async(some, self._choice.choice(["gpu0", "gpu1", "host0"]))

    def wait(self):
        if self._running is not None:
            self.bytes += self._running.wait(120).bytes_moved
            self.count += 1
            self._running = None


def train(torch, way, memory, vmart, moving, steps):
    """Milliseconds a step of each block, the losses, and how much moved."""
    training = Training(torch, memory)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        first = [training.first_step(), *(training.step() for _ in range(WARM - 1))]
    torch.cuda.current_stream().wait_stream(side)
    step = training.step
    if way == "graph":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = training.step()

        def step():
            graph.replay()
            return result

    losses = torch.zeros(BLOCKS * steps, device="cuda")
    moves = Moves(vmart, training.tensors()) if moving else None
    times = []
    for block in range(BLOCKS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for number in range(steps):
            losses[block * steps + number].copy_(step())
            if moves:
                torch.cuda.synchronize()  # Else all steps are enqueued before anything has moved.
                moves.go_on()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / steps * 1e3)
    if moves:
        moves.wait()
    seen = [loss.item().hex() for loss in first] + [loss.hex() for loss in losses.tolist()]
    return {"ms": times, "losses": seen, "moves": moves.count if moves else 0, "bytes": moves.bytes if moves else 0}


def measure(mode, steps):
    """Prints what one process measured, as JSON."""
    import contextlib

    import torch

    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # Nobody trains with that.
    vmart = None
    if mode != "plain":
        import vmart
    results = {}
    for way in WAYS:
        memory = (lambda: vmart.torch.memory(tag=way)) if vmart else contextlib.nullcontext  # noqa: B023
        results[way] = train(torch, way, memory, vmart, mode == "moving", steps)
    print(json.dumps(results))


def run(mode, steps):
    environment = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    command = [sys.executable, "-B", __file__, "--mode", mode, "--steps", str(steps)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    if done.returncode != 0:
        sys.exit(f"{mode}: exit status {done.returncode}\n{done.stdout[-500:]}{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def report(results):
    """Whether the losses are the same."""
    same = True
    for way in WAYS:
        medians = {mode: [statistics.median(each[way]["ms"]) for each in results[mode]] for mode in MODES}
        for mode in MODES:
            print(f"{way:6} {mode:7} {statistics.median(medians[mode]):9.3f} ms a step, processes: "
                  + " ".join(f"{ms:.3f}" for ms in medians[mode]))
        percent = 100 * (statistics.median(medians["vmart"]) / statistics.median(medians["plain"]) - 1)
        pairs = [100 * (ours / plain - 1) for plain, ours in zip(medians["plain"], medians["vmart"])]
        print(f"{way}: vmart with nothing moving costs {percent:+.2f} % (pairs: "
              f"{' '.join(f'{pair:+.2f}' for pair in pairs)}); the bar: <= {BAR_PERCENT:g} % "
              f"{'met' if percent <= BAR_PERCENT else 'NOT met'}")
        losses = {tuple(each[way]["losses"]) for mode in MODES for each in results[mode]}
        moved = results["moving"][0][way]
        count = len(moved["losses"])
        print(f"{way}: {count} losses are {'the same to the last bit' if len(losses) == 1 else 'NOT the same'} in all "
              f"processes; {moved['moves']} moves of {moved['bytes'] / 2**30:.2f} GiB in the third mode")
        same = same and len(losses) == 1 and moved["moves"] > 0
    return same


def parse_arguments():
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=40, help=f"in each of {BLOCKS} blocks")
    parser.add_argument("--json", type=pathlib.Path, help="all times, as a file")
    parser.add_argument("--mode", choices=MODES, help=argparse.SUPPRESS)  # In a child.
    return parser.parse_args()


def main():
    given = parse_arguments()
    if given.mode:
        measure(given.mode, given.steps)
        return 0
    try:
        import torch
        import vmart  # noqa: F401
    except ImportError as missing:
        return skip(missing)
    if torch.cuda.device_count() < 2:
        return skip("needs two GPUs")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}", flush=True)
    results = {mode: [] for mode in MODES}
    for number in range(given.rounds):
        for mode in MODES[:2] if number % 2 == 0 else MODES[1::-1]:
            results[mode].append(run(mode, given.steps))
    results["moving"].append(run("moving", given.steps))
    if given.json:
        given.json.write_text(json.dumps(results), encoding="utf-8")
    return 0 if report(results) else 1


if __name__ == "__main__":
    sys.exit(main())
