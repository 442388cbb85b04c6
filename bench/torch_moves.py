#!/usr/bin/env python3
"""Moves all weights of a transformer while it runs, and measures how long that takes.

    torch_moves.py LIBVMART.SO [--moves 4] [--attach] [--benchmark_filter=RE] [--benchmark_out=FILE]

The weights lie in a MemPool of vmart's, in a segment each; no stream is attached unless asked for. The
loop runs the forward pass, eagerly or as a CUDA graph, and launches 1, 4 or 16 steps ahead of the GPU.
Four ways to move a model:

    live    one `vmart_migrate_async` for each segment, all at once, while the loop uses them
    turn    one `vmart_migrate` after the other, in the thread of the loop; each holds everything
    group   one `vmart_migrate_many` for all segments, in the thread of the loop: it holds once
    beside  like `live`, but the segments of another model, which the loop does not use

Before all of them, `first`: the first move of the process, as `live`, once the loop has run for a second.

They go to GPU 1 and back, or to the host and back on a machine with one GPU: there the loop is so
much slower with its weights at the host that `live` says little.

Each row is one direction. `wall_ms` is the median time for the whole model. `backlog_ms` is how long
a step took from its launch to its end meanwhile, which is what a gate waits for.
`stall_longest_ms` is the longest stop, which `turn` does not report. `lost_ms` is how
much later the loop was than without the move, given its pace with the weights at either place.
Leaves with 77 without PyTorch and a GPU. What it writes reads like Google Benchmark's output.
"""

import argparse
import collections
import concurrent.futures
import ctypes
import json
import pathlib
import re
import statistics
import sys
import time

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))
import torch_pool  # Before torch: it sets what torch reads once.
from vmart_calls import move_many, report_of

torch = torch_pool.torch
LAYERS, WIDTH, HEADS, WORDS = 12, 3072, 24, 16_384
TOKENS = 1536  # Steps of 8 ms on an H200.
AHEAD = (1, 4, 16)
PACE_S = 1.0  # How long the loop is timed with nothing moving.
CASE_S = 20.0  # Then a case ends with the moves that it has made.
GPU, HOST = 0, 1  # VMART_GPU, VMART_HOST


def make_model():
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            q, k, v = (part.view(*part.shape[:-1], HEADS, -1).transpose(1, 2)
                       for part in self.qkv(self.norms[0](x)).chunk(3, dim=-1))
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).flatten(2))
            return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(WORDS, WIDTH)
            self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))

        def forward(self, words):
            return self.blocks(self.words(words)).float().mean(dim=(1, 2))

    torch.manual_seed(1)
    return Model()


class Loop:
    """Forward passes on the current stream, at most `ahead` of them launched and not finished."""

    def __init__(self, model, words, ahead, as_graph):
        self.ahead = ahead
        self.under_way = collections.deque()
        self.latencies = []
        self.steps = 0
        if as_graph:
            self.graph = torch.cuda.CUDAGraph()
            with torch.no_grad(), torch.cuda.graph(self.graph):
                self.result = model(words)
            self.step = self.graph.replay
        else:
            self.step = lambda: self.run(model, words)

    def run(self, model, words):
        with torch.no_grad():
            self.result = model(words)

    def go(self):
        begun = time.monotonic()
        self.step()
        event = torch.cuda.Event()
        event.record()
        self.under_way.append((begun, event))
        while len(self.under_way) >= self.ahead:
            begun, event = self.under_way.popleft()
            event.synchronize()
            self.latencies.append(time.monotonic() - begun)
            self.steps += 1

    def finish(self):
        torch.cuda.synchronize()
        self.steps += len(self.under_way)
        self.under_way.clear()

    def pace(self):
        """Seconds a step."""
        self.finish()
        first, begin = self.steps, time.monotonic()
        while time.monotonic() < begin + PACE_S:
            self.go()
        self.finish()
        return (time.monotonic() - begin) / (self.steps - first)


class Segments:
    """The allocations of a model's weights, and their moves."""

    def __init__(self, vmart, model):
        self.vmart, self.sizes = vmart, {}
        for weight in model.parameters():
            base, size = ctypes.c_void_p(), ctypes.c_size_t()
            vmart.call("vmart_base", ctypes.c_void_p(weight.data_ptr()), ctypes.byref(base),
                       ctypes.byref(size))
            self.sizes[base.value] = size.value
        self.bytes = sum(self.sizes.values())

    def move_at_once(self, to):
        """Blocks until all have moved. Returns their reports."""
        migrations = []
        for base in self.sizes:
            migration = ctypes.c_void_p()
            self.vmart.call("vmart_migrate_async", ctypes.c_void_p(base), ctypes.c_size_t(0),
                            ctypes.c_size_t(0), to, None, ctypes.byref(migration))
            migrations.append(migration)
        reports = []
        try:
            for migration in migrations:
                self.vmart.call("vmart_migration_wait", migration)
                reports.append(report_of(self.vmart, migration))
        finally:
            for migration in migrations:
                self.vmart.library.vmart_migration_release(migration)
        return reports

    def move_in_turn(self, to):
        """Blocks until all have moved. These moves have no reports."""
        for base in self.sizes:
            self.vmart.call("vmart_migrate", ctypes.c_void_p(base), ctypes.c_size_t(0),
                            ctypes.c_size_t(0), to, None)
        return []

    def move_as_group(self, to):
        """Blocks until all have moved. Returns the report of all together."""
        return [move_many(self.vmart, list(self.sizes), to)]


def timed(move, to):
    """Seconds, and the reports."""
    begin = time.monotonic()
    reports = move(to)
    return time.monotonic() - begin, reports


def move_live(loop, segments, to):
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as mover:
        moved = mover.submit(timed, segments.move_at_once, to)
        while not moved.done():
            loop.go()
        return moved.result()  # Raises what it failed with.


def move_in_turn(_, segments, to):
    return timed(segments.move_in_turn, to)


def move_as_group(_, segments, to):
    return timed(segments.move_as_group, to)


def summary(seconds, reports):
    """What one move of all segments came to."""
    stalls = {report.stall_max_ns / 1e6 for report in reports}  # Those at one stop share it.
    return {"seconds": seconds, "stall": max(stalls, default=0.0), "stops": len(stalls),
            "retries": sum(report.retries for report in reports)}


def measure(loop, segments, move, places, moves):
    """For each direction, what its moves came to. The weights lie at the first place before and after."""
    paces = []
    for place in (places[1], places[0]):
        segments.move_at_once(place)
        paces.append(loop.pace())
    rows = {place: [] for place in range(2)}
    end = time.monotonic() + CASE_S
    for i in range(moves):
        if i > 0 and time.monotonic() > end:
            break
        for target in (1, 0):
            for _ in range(2 * loop.ahead):
                loop.go()
            loop.latencies.clear()
            first, begin = loop.steps + len(loop.under_way), time.monotonic()
            seconds, reports = move(loop, segments, places[target])
            elapsed = time.monotonic() - begin
            steps = loop.steps + len(loop.under_way) - first
            # As if the weights had been half of the time at either place.
            lost = elapsed - steps * statistics.mean(paces)
            latency = statistics.median(loop.latencies) if loop.latencies else loop.ahead * paces[0]
            rows[target].append({**summary(seconds, reports), "backlog": latency, "lost": lost})
    return rows, paces


def report(name, rows, paces, segments):
    seconds = statistics.median(row["seconds"] for row in rows)
    backlog = statistics.median(row["backlog"] for row in rows)
    return {"name": name, "run_type": "iteration", "time_unit": "ms", "real_time": seconds * 1e3,
            "wall_ms": seconds * 1e3, "wall_longest_ms": max(row["seconds"] for row in rows) * 1e3,
            "gb_per_s": segments.bytes / seconds / 1e9,
            "backlog_ms": backlog * 1e3, "backlogs": seconds / backlog,
            "stall_longest_ms": max(row["stall"] for row in rows),
            "stops_at_least": statistics.median(row["stops"] for row in rows),
            "lost_ms": statistics.median(row["lost"] for row in rows) * 1e3,
            "lost_share": statistics.median(row["lost"] / row["seconds"] for row in rows),
            "retries": sum(row["retries"] for row in rows), "moves": len(rows),
            "segments": len(segments.sizes), "bytes": segments.bytes,
            "step_ms": paces[1] * 1e3, "step_there_ms": paces[0] * 1e3}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--moves", type=int, default=4, help="in each direction")
    parser.add_argument("--attach", action="store_true", help="the stream of the loop, which allows gates")
    parser.add_argument("--benchmark_filter", default="")
    parser.add_argument("--benchmark_out")
    return parser.parse_known_args()[0]


def first_move(name, loop, segments, to):
    """The entry of the first move of the process, with its loop as far ahead as it may be."""
    loop.pace()
    for _ in range(2 * loop.ahead):
        loop.go()
    first = summary(*move_live(loop, segments, to))
    entry = {"name": f"{name.rpartition('/')[0]}/first/to_{to}", "run_type": "iteration", "time_unit": "ms",
             "real_time": first["seconds"] * 1e3, "wall_ms": first["seconds"] * 1e3,
             "stall_longest_ms": first["stall"], "retries": first["retries"]}
    print(json.dumps(entry), flush=True)
    return entry


def run_cases(arguments, vmart, model, other_model):
    words = torch.randint(WORDS, (1, TOKENS), device="cuda")
    own, others = Segments(vmart, model), Segments(vmart, other_model)
    other = (GPU, 1) if torch.cuda.device_count() > 1 else (HOST, 0)
    places = [torch_pool.Location(GPU, 0), torch_pool.Location(*other)]
    entries = []
    for as_graph in (False, True):
        for ahead in AHEAD:
            for how, move, segments in (("live", move_live, own), ("turn", move_in_turn, own),
                                        ("group", move_as_group, own),
                                        ("beside", move_live, others)):
                name = f"torch_moves/{'graph' if as_graph else 'eager'}/ahead_{ahead}/{how}"
                if not re.search(arguments.benchmark_filter, name):
                    continue
                loop = Loop(model, words, ahead, as_graph)
                loop.go()
                loop.finish()
                wanted = loop.result.clone()
                if not entries:
                    entries.append(first_move(name, loop, segments, places[1]))
                rows, paces = measure(loop, segments, move, places, arguments.moves)
                loop.finish()
                right = torch.equal(wanted, loop.result)
                for target in (1, 0):
                    entry = report(f"{name}/to_{places[target]}", rows[target], paces, segments)
                    if not right:
                        entry.update(error_occurred=True, error_message="the result has changed")
                    entries.append(entry)
                    print(json.dumps(entry), flush=True)
                if arguments.benchmark_out:  # After each: a hang in the next loses nothing.
                    text = json.dumps({"benchmarks": entries})
                    pathlib.Path(arguments.benchmark_out).write_text(text, encoding="utf-8")
                del loop
    return entries


def main():
    arguments = parse_arguments()
    if torch is None or not torch.cuda.is_available():
        print("SKIPPED: this needs PyTorch and a GPU", file=sys.stderr)
        return torch_pool.EXIT_SKIPPED
    torch.zeros(1, device="cuda")
    vmart = torch_pool.Vmart(arguments.library)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        models = []
        other_pool = torch.cuda.MemPool(vmart.allocator.allocator())
        for pool in (vmart.pool, other_pool):  # Else small weights of both would share segments.
            with torch.cuda.use_mem_pool(pool):
                models.append(make_model().to(torch.bfloat16).cuda())
        models[0](torch.randint(WORDS, (1, TOKENS), device="cuda"))  # cuBLAS gets its workspace.
        torch.cuda.synchronize()
        if arguments.attach:
            vmart.attach(stream)
        entries = run_cases(arguments, vmart, *models)
        torch.cuda.synchronize()
        if arguments.attach:
            vmart.detach(stream)
    del models, other_pool
    vmart.close()
    return 1 if any("error_occurred" in entry for entry in entries) else 0


if __name__ == "__main__":
    sys.exit(main())
