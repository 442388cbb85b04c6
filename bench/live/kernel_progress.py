#!/usr/bin/env python3
"""A kernel that never ends counts in memory that moves to the host and back, with nothing attached: how far
it comes over time, and whether each word is right afterwards.

    kernel_progress.py LIBVMART.SO --out FILE.json      measures; needs CuPy and a GPU
    kernel_progress.py --draw FILE.json IMAGE.svg       draws; needs matplotlib

The kernel adds one to each word of 32 MiB, over and over, and tells the host after each pass. A pass takes
some 15 us in HBM, and 40 times that while the memory lies at the host. Leaves with 77 without what it needs,
with 1 if a word is wrong.
"""

import argparse
import ctypes
import json
import pathlib
import sys
import threading
import time

BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCH), str(BENCH.parent / "examples")]
from torch_pool import Location
from vmart_calls import Library

EXIT_SKIPPED = 77
BYTES = 32 << 20
BLOCKS, THREADS = 128, 1024  # Fewer blocks than multiprocessors: all run at once.
BIN_US = 20
MOVES = ((20, "host"), (70, "gpu"))  # At which millisecond, and where to.
RECORDED_MS = 110
PLACES = {"gpu": 0, "host": 1}  # VMART_GPU, VMART_HOST

SOURCE = r"""
extern "C" __global__ void count(unsigned* words, unsigned words_of_block, volatile unsigned* progress,
                                 volatile const unsigned* ends, unsigned* passes) {
  __shared__ unsigned over;
  unsigned* const mine = words + (size_t)blockIdx.x * words_of_block;
  for (unsigned pass = 0;; ++pass) {
    if (threadIdx.x == 0) over = *ends;
    __syncthreads();
    if (over != 0) {
      if (threadIdx.x == 0) passes[blockIdx.x] = pass;
      return;
    }
    for (unsigned i = threadIdx.x; i < words_of_block; i += blockDim.x) mine[i] += 1;
    __syncthreads();
    if (blockIdx.x == 0 && threadIdx.x == 0) *progress = pass + 1;
  }
}
"""


class Memory:
    """32 MiB of vmart's on GPU 0, zeroed by whoever uses it."""

    def __init__(self, path):
        self.vmart = Library(path)
        pointer = ctypes.c_void_p()
        self.vmart.call("vmart_alloc", ctypes.c_size_t(BYTES), Location(PLACES["gpu"], 0), ctypes.byref(pointer))
        self.pointer = pointer.value

    def move(self, place):
        """In the background, with the other moves' limits on stops. Blocks until it is there."""
        migration, none = ctypes.c_void_p(), ctypes.c_size_t(0)
        self.vmart.call("vmart_migrate_async", ctypes.c_void_p(self.pointer), none, none,
                        Location(PLACES[place], 0), None, ctypes.byref(migration))
        try:
            self.vmart.call("vmart_migration_wait", migration)
        finally:
            self.vmart.library.vmart_migration_release(migration)

    def free(self):
        self.vmart.call("vmart_free", ctypes.c_void_p(self.pointer))


def record(progress, moves):
    """Passes by the end of each bin, and begin and end of each move in ms. `moves` runs beside it."""
    begun = time.perf_counter_ns()
    spans = []

    def mover():
        for at_ms, place in MOVES:
            while time.perf_counter_ns() - begun < at_ms * 1_000_000:
                pass
            start = time.perf_counter_ns()
            moves(place)
            spans.append({"to": place, "begin_ms": (start - begun) / 1e6,
                          "end_ms": (time.perf_counter_ns() - begun) / 1e6})

    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # Two threads of Python take turns.
    thread = threading.Thread(target=mover)
    thread.start()
    bins = [0] * (RECORDED_MS * 1000 // BIN_US)
    first, now = int(progress[0]), 0
    while now < len(bins):
        bins[now] = int(progress[0]) - first
        now = (time.perf_counter_ns() - begun) // (BIN_US * 1000)
    thread.join()
    sys.setswitchinterval(switching)
    for i in range(1, len(bins)):  # No look fell into some of them.
        bins[i] = max(bins[i], bins[i - 1])
    return bins, spans


def measure(path):
    import cupy
    import numpy
    memory = Memory(path)
    words = cupy.ndarray(BYTES // 4, cupy.uint32, cupy.cuda.MemoryPointer(
        cupy.cuda.UnownedMemory(memory.pointer, BYTES, None), 0))
    words.fill(0)
    pinned = cupy.cuda.alloc_pinned_memory(4096)
    shared = numpy.frombuffer(pinned, numpy.uint32, 1024)
    shared[:] = 0
    passes = cupy.zeros(BLOCKS, cupy.uint32)
    kernel = cupy.RawKernel(SOURCE, "count")
    cupy.cuda.Device().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)  # Kept: its end waits for the kernel.
    with stream:
        kernel((BLOCKS,), (THREADS,), (words, numpy.uint32(BYTES // 4 // BLOCKS), numpy.uint64(pinned.ptr),
                                       numpy.uint64(pinned.ptr + 2048), passes))
    while shared[0] == 0:
        pass
    for place in ("host", "gpu"):  # Own contexts, checks and host memory are there after the first moves.
        memory.move(place)
    bins, spans = record(shared, memory.move)
    shared[512] = 1
    cupy.cuda.Device().synchronize()
    counted = cupy.repeat(passes, BYTES // 4 // BLOCKS)
    wrong = int((words != counted).sum())
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    del words
    memory.free()
    return {"gpu": name, "bytes": BYTES, "bin_us": BIN_US, "passes": bins, "moves": spans, "words_wrong": wrong,
            "longest_pause_us": [longest_pause_us(bins, span) for span in spans]}


def longest_pause_us(bins, span):
    """The longest time without a pass while the memory moved."""
    first, last = (int(span[key] * 1000 / BIN_US) for key in ("begin_ms", "end_ms"))
    longest = since = 0
    for i in range(max(1, first), min(last + 1, len(bins))):
        since = 0 if bins[i] > bins[i - 1] else since + 1
        longest = max(longest, since)
    return longest * BIN_US


def draw(measured, path):
    import matplotlib
    matplotlib.use("svg")
    import live_plots
    from matplotlib import pyplot
    with pyplot.rc_context(live_plots.STYLE):
        figure, (whole, zoomed) = pyplot.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained",
                                                  width_ratios=(3, 2))
        times = [i * measured["bin_us"] / 1000 for i in range(len(measured["passes"]))]
        done = [passes * measured["bytes"] / 2**30 for passes in measured["passes"]]
        for axes in (whole, zoomed):
            for span in measured["moves"]:
                axes.axvspan(span["begin_ms"], span["end_ms"], color="#E69F00", alpha=0.25, linewidth=0)
            axes.plot(times, done, color="#0072B2")
            axes.set_xlabel("ms")
        for span in measured["moves"]:
            place = {"host": "to the host", "gpu": "to HBM"}[span["to"]]
            whole.annotate(place, (span["end_ms"], done[-1]), xytext=(3, -4), textcoords="offset points",
                           fontsize=9, va="top")
        whole.set_ylabel("GiB counted in by the kernel")
        whole.set_title("One kernel, which never ends; its memory moves", loc="left", fontsize=10)
        span = measured["moves"][0]
        zoomed.set_xlim(span["begin_ms"] - 1, span["end_ms"] + 2)
        near = [at for time_ms, at in zip(times, done) if zoomed.get_xlim()[0] <= time_ms <= zoomed.get_xlim()[1]]
        margin = (near[-1] - near[0]) * 0.05
        zoomed.set_ylim(near[0] - margin, near[-1] + margin)
        zoomed.set_title("The move to the host", loc="left", fontsize=10)
        figure.savefig(path, format="svg", metadata={"Date": None})
        pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library", nargs="?")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--draw", nargs=2, type=pathlib.Path, metavar=("FILE.json", "IMAGE.svg"))
    arguments = parser.parse_args()
    if arguments.draw:
        try:
            draw(json.loads(arguments.draw[0].read_text(encoding="utf-8")), arguments.draw[1])
        except ImportError as error:
            print(f"skipped: {error}")
            return EXIT_SKIPPED
        return 0
    if arguments.library is None:
        parser.error("give LIBVMART.SO or --draw")
    try:
        measured = measure(arguments.library)
    except ImportError as error:
        print(f"skipped: {error}")
        return EXIT_SKIPPED
    if arguments.out:
        arguments.out.write_text(json.dumps(measured), encoding="utf-8")
    print({key: measured[key] for key in ("gpu", "moves", "words_wrong", "longest_pause_us")})
    return 1 if measured["words_wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
