#!/usr/bin/env python3
"""vmart.torch with real GPUs: a transformer trains eagerly and in a CUDA graph while its parameters and
the states of Adam move at random, and the losses are the same to the last bit; pools; memory_saver.

torch_package.py LIBVMART.SO EXAMPLES     leaves with 77 without the package, PyTorch and two GPUs
"""

import os
import random
import sys

EXIT_SKIPPED = 77
STEPS, WARMUP, WIDTH = 60, 5, 1024
MIB = 1 << 20

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
os.environ.pop("PYTORCH_ALLOC_CONF", None)


class Training:
    """A small transformer whose memory, states included, is in a pool of vmart."""

    def __init__(self, torch, vmart, tag):
        self.torch, self.vmart = torch, vmart
        torch.manual_seed(1)
        self.memory = lambda: vmart.torch.memory(tag=tag)
        with self.memory():
            layer = torch.nn.TransformerEncoderLayer(WIDTH, 8, 2 * WIDTH, dropout=0.0, batch_first=True)
            self.model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).cuda()
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, capturable=True)
        self.data = torch.randn(4, 64, WIDTH, device="cuda")

    def step(self):
        self.optimizer.zero_grad(set_to_none=False)
        loss = (self.model(self.data) - self.data.roll(1, 1)).square().mean()
        loss.backward()
        with self.memory():  # The states of Adam are made at the first step.
            self.optimizer.step()
        return loss.detach()

    def move_some(self, choice):
        tensors = [*self.model.parameters()]
        tensors += [value for state in self.optimizer.state.values() for value in state.values()]
        tensors = [tensor for tensor in tensors if tensor.is_cuda]
        some = choice.sample(tensors, 3)
        return self.vmart.migrate_async(some, choice.choice(["gpu0", "gpu1", "host0"]))


def losses(torch, vmart, graph, move):
    training = Training(torch, vmart, f"training {graph} {move}")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        seen = [training.step().item() for _ in range(WARMUP)]
    torch.cuda.current_stream().wait_stream(side)
    step = training.step
    if graph:
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            result = training.step()

        def step():
            captured.replay()
            return result

    choice, running = random.Random(7), None
    for _ in range(STEPS):
        if move and (running is None or running.done()):
            if running is not None:
                running.wait()
            running = training.move_some(choice)
        seen.append(step().item())
    if running is not None:
        running.wait()
    print(vmart.torch.where(training.optimizer).total)
    return seen


def pools(torch, vmart):
    with vmart.torch.memory(tag="outer") as pool:
        with vmart.torch.memory(tag="inner", at="gpu1"):
            inner = torch.ones(12 * MIB, dtype=torch.uint8, device="cuda")
        with vmart.torch.memory(tag="outer") as same:
            outer = torch.ones(12 * MIB, dtype=torch.uint8, device="cuda")
    assert pool is same
    assert [str(part.at) for part in vmart.where([inner, outer])] == ["gpu(1)", "gpu(0)"]
    assert int(inner.sum()) + int(outer.sum()) == 24 * MIB
    with vmart.torch.place_by_size(64 * MIB, large="host0"):
        large = torch.full((64 * MIB,), 3, dtype=torch.uint8, device="cuda")
        small = torch.full((MIB,), 3, dtype=torch.uint8, device="cuda")
    assert [str(part.at) for part in vmart.where([large, small])] == ["host(0)", "gpu(0)"]
    assert bool((large == 3).all())
    try:
        with vmart.torch.memory(tag="too large"):
            torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
        raise AssertionError("4 TiB were allocated")
    except torch.OutOfMemoryError:
        pass


def memory_saver(torch, vmart):
    from vmart.torch.memory_saver import torch_memory_saver as saver

    with saver.region("kept", enable_cpu_backup=True):
        kept = torch.arange(64 * MIB, device="cuda")
    with saver.region("dropped"):
        dropped = torch.ones(64 * MIB, device="cuda")
    operand = torch.ones(MIB, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with saver.cuda_graph(graph, tag="graph", enable_cpu_backup=True):
        result = operand * 2
    address, before = kept.data_ptr(), torch.cuda.mem_get_info()[0]
    paused = saver.pause()
    freed = torch.cuda.mem_get_info()[0] - before
    assert freed >= 0.9 * paused.freed_bytes > 700 * MIB, (freed, paused)
    assert torch.equal(saver.get_cpu_backup(kept), torch.arange(64 * MIB))
    saver.resume()
    graph.replay()
    assert kept.data_ptr() == address and bool((result == 2).all())
    assert torch.equal(kept.cpu(), torch.arange(64 * MIB))
    dropped.fill_(1)
    assert float(dropped.sum(dtype=torch.float64)) == 64 * MIB


def main():
    try:
        import torch
        import vmart
    except ImportError as missing:
        print(f"SKIPPED: {missing}")
        return EXIT_SKIPPED
    if torch.cuda.device_count() < 2:
        print("SKIPPED: this needs two GPUs")
        return EXIT_SKIPPED
    torch.use_deterministic_algorithms(True)
    pools(torch, vmart)
    memory_saver(torch, vmart)
    for graph in (False, True):
        still, moved = (losses(torch, vmart, graph, move) for move in (False, True))
        assert still == moved, f"the losses differ (graph: {graph})"
    print(f"{2 * (STEPS + WARMUP)} losses are equal, eager and in a graph, moved and not")
    return 0


if __name__ == "__main__":
    sys.exit(main())
