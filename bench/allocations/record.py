#!/usr/bin/env python3
"""Records what a program allocates and frees, for `pool_memory_bench` and its rival.

    record.py torch-training FILE [--steps 6]   a transformer's training steps, with AdamW
    record.py torch-serving FILE [--steps 64]   a transformer that generates, with a growing KV cache
    record.py cupy FILE [--steps 20]            a solver and a sort on CuPy's arrays, two streams

On a GPU, PyTorch's allocator keeps the history, and the file says what it held. Without one PyTorch
runs on the CPU, where the profiler sees the same tensors, but nothing is known of a caching
allocator. The file's format is that of bench/allocations/allocation_trace.hpp.
"""

import argparse
import json
import pathlib
import sys
import tempfile


class Trace:
    """Steps of a trace; ids and streams are numbered in the order of their first use."""

    def __init__(self):
        self.lines, self.live, self.streams, self.blocks = [], {}, {}, 0

    def _stream(self, stream):
        return self.streams.setdefault(stream, len(self.streams))

    def allocate(self, address, size_bytes, stream):
        if size_bytes == 0:
            return
        self.live[address] = self.blocks
        self.lines.append(f"a {self.blocks} {size_bytes} {self._stream(stream)}")
        self.blocks += 1

    def free(self, address, stream):
        """What was allocated before the recording began is left out."""
        if address in self.live:
            self.lines.append(f"f {self.live.pop(address)} {self._stream(stream)}")

    def write(self, file, source, held_bytes=None):
        lines = [f"# {source}"] + ([f"held {held_bytes}"] if held_bytes else []) + self.lines
        pathlib.Path(file).write_text("\n".join(lines) + "\n")


def from_history(history):
    """The trace of one device of `torch.cuda.memory._snapshot()["device_traces"]`."""
    trace = Trace()
    for event in history:
        if event["action"] == "alloc":
            trace.allocate(event["addr"], event["size"], event["stream"])
        elif event["action"] == "free_requested":
            trace.free(event["addr"], event["stream"])
    return trace


def from_profile(events):
    """The trace of a profile of the CPU, exported by torch.profiler."""
    trace = Trace()
    changes = [event for event in events if event.get("name") == "[memory]"]
    for event in sorted(changes, key=lambda event: event["ts"]):
        size_bytes = event["args"]["Bytes"]
        if size_bytes > 0:
            trace.allocate(event["args"]["Addr"], size_bytes, 0)
        else:
            trace.free(event["args"]["Addr"], 0)
    return trace


def make_transformer(torch, words, width, layers, heads):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x, past=None):
            q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2)
                       for part in self.qkv(self.before(x)).chunk(3, dim=-1))
            if past is not None:
                k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=past is None)
            x = x + self.out(mixed.transpose(1, 2).flatten(2))
            return x + self.down(nn.functional.gelu(self.up(self.after(x)))), (k, v)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.last = nn.Embedding(words, width), nn.Linear(width, words)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))

        def forward(self, x, past=None):
            x, kept = self.words(x), []
            for i, block in enumerate(self.blocks):
                x, pair = block(x, past[i] if past else None)
                kept.append(pair)
            return self.last(x), kept

    return Model()


def train(torch, device, steps):
    model = make_transformer(torch, 8192, 512, 6, 8).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(steps):
        words = torch.randint(8192, (8, 128 + 32 * (step % 3)), device=device)
        loss = torch.nn.functional.cross_entropy(model(words)[0].flatten(0, 1), words.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def serve(torch, device, steps):
    model = make_transformer(torch, 8192, 512, 6, 8).to(device)
    with torch.inference_mode():
        for request in range(3):
            out, past = model(torch.randint(8192, (4, 64 + 48 * request), device=device))
            for _ in range(steps // 3):
                out, past = model(out[:, -1:].argmax(-1), past)


def record_torch(work, steps):
    import torch

    torch.manual_seed(1)
    source = f"PyTorch {torch.__version__}, {work.__name__}, {steps} steps"
    if torch.cuda.is_available():
        torch.cuda.memory._record_memory_history(max_entries=10_000_000, stacks="python")
        work(torch, "cuda", steps)
        torch.cuda.synchronize()
        history = torch.cuda.memory._snapshot()["device_traces"][0]
        name = torch.cuda.get_device_name()
        return from_history(history), f"{source}, {name}", torch.cuda.max_memory_reserved()
    activity = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activity, profile_memory=True) as profile:
        work(torch, "cpu", steps)
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        events = json.loads(pathlib.Path(file.name).read_text())["traceEvents"]
    return from_profile(events), f"{source}, CPU", None


def record_cupy(steps):
    import cupy

    trace = Trace()

    class Hook(cupy.cuda.MemoryHook):
        name = "record"

        def malloc_postprocess(self, *, size, mem_ptr, **_):
            trace.allocate(mem_ptr, size, cupy.cuda.get_current_stream().ptr)

        def free_postprocess(self, *, mem_ptr, **_):
            trace.free(mem_ptr, cupy.cuda.get_current_stream().ptr)

    random = cupy.random.default_rng(1)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    with Hook():
        for step in range(steps):
            with streams[step % 2]:
                size = 512 + 128 * (step % 5)
                matrix = random.standard_normal((size, size)) + size * cupy.eye(size)
                vector = random.standard_normal(size)
                solved = cupy.linalg.solve(matrix, vector)
                rest = cupy.abs(matrix @ solved - vector).max()
                order = cupy.argsort(random.standard_normal(50_000 * (1 + step % 4)))
                assert float(rest) < 1e-6 and int(order.size) > 0
    held = cupy.get_default_memory_pool().total_bytes()  # It never shrinks by itself.
    return trace, f"CuPy {cupy.__version__}, solve and sort, {steps} steps", held


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=["torch-training", "torch-serving", "cupy"])
    parser.add_argument("file")
    parser.add_argument("--steps", type=int)
    arguments = parser.parse_args()
    try:
        if arguments.work == "cupy":
            trace, source, held = record_cupy(arguments.steps or 20)
        else:
            work, steps = (train, 6) if arguments.work == "torch-training" else (serve, 64)
            trace, source, held = record_torch(work, arguments.steps or steps)
    except ImportError as error:
        print(f"SKIPPED: {error}", file=sys.stderr)
        return 77
    trace.write(arguments.file, source, held)
    print(f"{len(trace.lines)} steps, {trace.blocks} blocks, {len(trace.streams)} streams")
    return 0


if __name__ == "__main__":
    sys.exit(main())
