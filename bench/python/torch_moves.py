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

import collections
import concurrent.futures
import ctypes
import pathlib
import statistics
import sys
import time

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.programs import Benchmarks, skip
from harness.vmart_calls import GPU, HOST, Place, allocations_of, move_many, report_of, torch_pool

torch = torch_pool.torch
LAYERS, WIDTH, HEADS, WORDS = 12, 3072, 24, 16_384
TOKENS = 1536  # Steps of 8 ms on an H200.
AHEAD = (1, 4, 16)
PACE_S = 1.0  # How long the loop is timed with nothing moving.
CASE_S = 20.0  # Then a case ends with the moves that it has made.


def make_model():
    from harness.gpt_block import Block
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(WORDS, WIDTH)
            self.blocks = nn.Sequential(*(Block(WIDTH, HEADS) for _ in range(LAYERS)))

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
        self.vmart, self.sizes = vmart, allocations_of(vmart, model.parameters())
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
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as migrator:
        moved = migrator.submit(timed, segments.move_at_once, to)
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


def counters_of(rows, paces, segments):
    seconds = statistics.median(row["seconds"] for row in rows)
    backlog = statistics.median(row["backlog"] for row in rows)
    return {"wall_ms": seconds * 1e3, "wall_longest_ms": max(row["seconds"] for row in rows) * 1e3,
            "gb_per_s": segments.bytes / seconds / 1e9,
            "backlog_ms": backlog * 1e3, "backlogs": seconds / backlog,
            "stall_longest_ms": max(row["stall"] for row in rows),
            "stops_at_least": statistics.median(row["stops"] for row in rows),
            "lost_ms": statistics.median(row["lost"] for row in rows) * 1e3,
            "lost_share": statistics.median(row["lost"] / row["seconds"] for row in rows),
            "retries": sum(row["retries"] for row in rows), "moves": len(rows),
            "segments": len(segments.sizes), "bytes": segments.bytes,
            "step_ms": paces[1] * 1e3, "step_there_ms": paces[0] * 1e3}


def first_move(loop, segments, to):
    """The counters of the first move of the process, with its loop as far ahead as it may be."""
    loop.pace()
    for _ in range(2 * loop.ahead):
        loop.go()
    first = summary(*move_live(loop, segments, to))
    return {"wall_ms": first["seconds"] * 1e3, "stall_longest_ms": first["stall"], "retries": first["retries"]}


def run_case(benchmarks, name, loop, segments, move, places):
    loop.go()
    loop.finish()
    wanted = loop.result.clone()
    if not benchmarks.entries:
        counters = first_move(loop, segments, places[1])
        benchmarks.add(f"{name.rpartition('/')[0]}/first/to_{places[1]}", "ms", counters["wall_ms"], **counters)
    rows, paces = measure(loop, segments, move, places, benchmarks.flags.moves)
    loop.finish()
    error = None if torch.equal(wanted, loop.result) else "the result has changed"
    for target in (1, 0):
        counters = counters_of(rows[target], paces, segments)
        benchmarks.add(f"{name}/to_{places[target]}", "ms", counters["wall_ms"], error, **counters)


def run_cases(benchmarks, vmart, model, other_model):
    words = torch.randint(WORDS, (1, TOKENS), device="cuda")
    own, others = Segments(vmart, model), Segments(vmart, other_model)
    other = (GPU, 1) if torch.cuda.device_count() > 1 else (HOST, 0)
    places = [Place(GPU, 0), Place(*other)]
    for as_graph in (False, True):
        for ahead in AHEAD:
            for how, move, segments in (("live", move_live, own), ("turn", move_in_turn, own),
                                        ("group", move_as_group, own),
                                        ("beside", move_live, others)):
                name = f"torch_moves/{'graph' if as_graph else 'eager'}/ahead_{ahead}/{how}"
                if benchmarks.wants(name):
                    run_case(benchmarks, name, Loop(model, words, ahead, as_graph), segments, move, places)


def main():
    benchmarks = Benchmarks(__doc__, moves=(4, "in each direction"),
                            attach=(False, "the stream of the loop, which allows gates"))
    attach = benchmarks.flags.attach
    if torch is None or not torch.cuda.is_available():
        return skip("this needs PyTorch and a GPU")
    torch.zeros(1, device="cuda")
    vmart = torch_pool.Vmart(benchmarks.flags.library)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        models = []
        other_pool = torch.cuda.MemPool(vmart.allocator.allocator())
        for pool in (vmart.pool, other_pool):  # Else small weights of both would share segments.
            with torch.cuda.use_mem_pool(pool):
                models.append(make_model().to(torch.bfloat16).cuda())
        models[0](torch.randint(WORDS, (1, TOKENS), device="cuda"))  # cuBLAS gets its workspace.
        torch.cuda.synchronize()
        if attach:
            vmart.attach(stream)
        run_cases(benchmarks, vmart, *models)
        torch.cuda.synchronize()
        if attach:
            vmart.detach(stream)
    del models, other_pool
    vmart.close()
    return benchmarks.status()


if __name__ == "__main__":
    sys.exit(main())
