#!/usr/bin/env python3
"""A kernel that never ends counts in memory that moves to the host and back, with nothing attached: how far
it comes over time, and whether each word is right afterwards.

    kernel_progress.py LIBVMART.SO [--out FILE.json]

The kernel adds one to each word of 32 MiB, over and over, and tells the host after each pass. A pass takes
some 15 us in HBM, and 40 times that while the memory lies at the host. kernel_progress_plots.py draws the file.
Leaves with 77 without CuPy and a GPU, with 1 if a word is wrong.
"""

import ctypes
import json
import pathlib
import sys
import threading
import time

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.programs import parser_of, skip
from harness.vmart_calls import GPU, HOST, Library, Place

BYTES = 32 << 20
BLOCKS, THREADS = 128, 1024  # Fewer blocks than multiprocessors: all run at once.
BIN_US = 20
MOVES = ((20, "host"), (70, "gpu"))  # At which millisecond, and where to.
RECORDED_MS = 110
PLACES = {"gpu": GPU, "host": HOST}

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
        self.vmart.call("vmart_alloc", ctypes.c_size_t(BYTES), Place(GPU, 0), ctypes.byref(pointer))
        self.pointer = pointer.value

    def move(self, place):
        """In the background, with the other moves' limits on stops. Blocks until it is there."""
        migration, none = ctypes.c_void_p(), ctypes.c_size_t(0)
        self.vmart.call("vmart_migrate_async", ctypes.c_void_p(self.pointer), none, none,
                        Place(PLACES[place], 0), None, ctypes.byref(migration))
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

    def migrator():
        for at_ms, place in MOVES:
            while time.perf_counter_ns() - begun < at_ms * 1_000_000:
                pass
            start = time.perf_counter_ns()
            moves(place)
            spans.append({"to": place, "begin_ms": (start - begun) / 1e6,
                          "end_ms": (time.perf_counter_ns() - begun) / 1e6})

    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # Two threads of Python take turns.
    thread = threading.Thread(target=migrator)
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


def main():
    parser = parser_of(__doc__)
    parser.add_argument("library")
    parser.add_argument("--out", type=pathlib.Path)
    flags = parser.parse_args()
    try:
        measured = measure(flags.library)
    except ImportError as error:
        return skip(error)
    if flags.out:
        flags.out.write_text(json.dumps(measured), encoding="utf-8")
    print({key: measured[key] for key in ("gpu", "moves", "words_wrong", "longest_pause_us")})
    return 1 if measured["words_wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
