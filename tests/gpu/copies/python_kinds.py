#!/usr/bin/env python3
"""Copies of PyTorch and CuPy in one thread, while another one moves their memory between HBM and the host's
memory. No call may fail, and each must copy the right values. The programs have no scopes of their own.

python_kinds.py LIBVMART.SO [--count N] [--moves N] [--kind PART]

Each kind is called N times (500), and until so many moves (8) have ended beside it. Each package has a
process of its own; one that is missing is left out. Leaves with 77 without both, or without a GPU.
"""

import argparse
import ctypes
import subprocess
import sys
import threading
import time

EXIT_SKIPPED = 77
WORDS = 4 << 20
SECONDS = 60


class Place(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("ordinal", ctypes.c_int)]


class Vmart:
    """What is used of the library, as any program would."""

    def __init__(self, path):
        self.calls = ctypes.CDLL(path)
        self.calls.vmart_last_error.restype = ctypes.c_char_p

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.calls.vmart_last_error().decode())

    def attach(self, stream):
        self.check(self.calls.vmart_attach(ctypes.c_void_p(stream)))

    def allocate(self, size):
        pointer = ctypes.c_void_p()
        self.check(self.calls.vmart_alloc(ctypes.c_size_t(size), Place(0, 0), ctypes.byref(pointer)))
        return pointer.value

    def move(self, pointer, kind):
        migration = ctypes.c_void_p()
        none = ctypes.c_size_t(0)
        self.check(self.calls.vmart_migrate_async(ctypes.c_void_p(pointer), none, none, Place(kind, 0), None,
                                                  ctypes.byref(migration)))
        try:
            self.check(self.calls.vmart_migration_wait(migration))
        finally:
            self.calls.vmart_migration_release(migration)


class Migrator:
    """Moves to and fro, in a thread, until it ends."""

    def __init__(self, vmart, pointers):
        self.vmart, self.pointers = vmart, pointers
        self.moved, self.refused, self.why = 0, 0, ""
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        turn = 0
        while not self.ended.is_set():
            pointer = self.pointers[turn % len(self.pointers)]
            try:
                self.vmart.move(pointer, 1 - turn // len(self.pointers) % 2)
                self.moved += 1
            except RuntimeError as error:
                self.refused, self.why = self.refused + 1, self.why or str(error)
            turn += 1

    def end(self):
        self.ended.set()
        self.thread.join()


def torch_kinds(vmart, library):
    """Calls, each with a function that says whether its result is right, and how to wait for them."""
    import torch
    if not torch.cuda.is_available():
        return None
    torch.zeros(1, device="cuda").clone()  # All that PyTorch fetches of CUDA, it has before vmart opens.
    allocator = torch.cuda.memory.CUDAPluggableAllocator(library, "vmart_torch_malloc", "vmart_torch_free")
    pool = torch.cuda.MemPool(allocator.allocator())
    with torch.cuda.use_mem_pool(pool):
        source, target = (torch.full((WORDS,), value, device="cuda", dtype=torch.int32) for value in (7, 0))
    pinned = torch.full((WORDS,), 9, dtype=torch.int32, pin_memory=True)
    pageable = torch.full((1 << 16,), 9, dtype=torch.int32)
    made = {}

    def make(name, value):
        made[name] = value

    def holds(tensor, value):
        return lambda: bool((tensor() == value).all())

    small = slice(0, 1 << 16)
    yield torch.cuda.synchronize, [source.data_ptr(), target.data_ptr()], torch.cuda.current_stream().cuda_stream, (
        source, target, pool, allocator)
    in_target = lambda value: holds(lambda: target, value)
    yield "torch copy_", lambda: target.copy_(source), in_target(7)
    yield "torch copy_ of a slice", lambda: target[small].copy_(source[small]), holds(lambda: target[small], 7)
    yield "torch copy_ of columns", lambda: target.view(-1, 64)[:, :8].copy_(source.view(-1, 64)[:, :8]), \
        holds(lambda: target.view(-1, 64)[:, :8], 7)
    yield "torch copy_ from pinned", lambda: target.copy_(pinned, non_blocking=True), in_target(9)
    yield "torch copy_ from pageable", lambda: target[small].copy_(pageable), holds(lambda: target[small], 9)
    yield "torch clone", lambda: make("clone", source.clone()), holds(lambda: made["clone"], 7)
    yield "torch zero_", target.zero_, in_target(0)
    yield "torch cat", lambda: make("cat", torch.cat([source, source])), holds(lambda: made["cat"], 7)
    yield "torch cpu", lambda: make("cpu", source[small].cpu()), holds(lambda: made["cpu"], 7)
    yield "torch item", lambda: make("item", source[5].item()), lambda: made["item"] == 7
    yield "torch copy to pinned", lambda: pinned.copy_(source, non_blocking=True), holds(lambda: pinned, 7)


def cupy_kinds(vmart, library):
    import cupy
    import numpy
    try:
        cupy.zeros(4).copy()  # As above.
    except cupy.cuda.runtime.CUDARuntimeError:
        return None
    size = WORDS * 4
    pointers = [vmart.allocate(size) for _ in range(2)]

    def array(pointer):
        memory = cupy.cuda.UnownedMemory(pointer, size, None)
        return cupy.ndarray(WORDS, cupy.int32, cupy.cuda.MemoryPointer(memory, 0))

    source, target = map(array, pointers)
    source.fill(7)
    host = numpy.full(WORDS, 9, numpy.int32)
    made = {}

    def make(name, value):
        made[name] = value

    def holds(found, value):
        return lambda: bool((found() == value).all())

    stream = cupy.cuda.get_current_stream()
    yield cupy.cuda.Device().synchronize, pointers, stream.ptr, (source, target)
    in_target = lambda value: holds(lambda: target, value)
    yield "cupy copyto", lambda: cupy.copyto(target, source), in_target(7)
    yield "cupy copy", lambda: make("copy", source.copy()), holds(lambda: made["copy"], 7)
    yield "cupy set", lambda: target.set(host), in_target(9)
    yield "cupy get", lambda: make("get", source.get()), holds(lambda: made["get"], 7)
    yield "cupy copy_from_device_async", lambda: target.data.copy_from_device_async(source.data, size, stream), \
        in_target(7)
    yield "cupy memset", lambda: target.data.memset(0, size), in_target(0)
    yield "cupy memset_async", lambda: target.data.memset_async(0, size, stream), in_target(0)
    yield "cupy asarray", lambda: make("asarray", cupy.asarray(source[:64].get())), \
        holds(lambda: made["asarray"], 7)


def play(kinds, vmart, options):
    wait, pointers, stream, kept = next(kinds, (None,) * 4)
    if wait is None:
        return EXIT_SKIPPED
    wait()
    vmart.attach(stream)
    migrator, bad, count = Migrator(vmart, pointers), 0, 0
    for name, call, is_right in kinds:
        if options.kind not in name:
            continue
        count += 1
        print(f"{name:32}", end="", flush=True)  # A crash shows what ran.
        calls, failed, why, moved, end = 0, 0, "", migrator.moved, time.monotonic() + SECONDS
        while (calls < options.count or migrator.moved - moved < options.moves) and time.monotonic() < end:
            calls += 1
            try:
                call()
                if calls % 16 == 0:
                    wait()
            except Exception as error:
                failed, why = failed + 1, why or f"  {error!r:.120}"
        wait()
        late = migrator.moved - moved < options.moves or calls < options.count
        wrong = "" if failed or is_right() else "  WRONG VALUES"
        bad += bool(failed or wrong or late)
        print(f" {calls:9} calls {failed:6} failed {migrator.moved - moved:7} moves"
              f"{wrong}{'  OUT OF TIME' if late else ''}{why}", flush=True)
    migrator.end()
    del kept
    print(f"{count} kinds, {bad} bad; {migrator.moved} moves, {migrator.refused} refused  {migrator.why:.300}", flush=True)
    return 1 if bad else 0


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--moves", type=int, default=8)
    parser.add_argument("--kind", default="")
    parser.add_argument("--package", choices=["torch", "cupy"])
    return parser.parse_args()


def main():
    options = parse()
    if options.package is None:
        results = [subprocess.run([sys.executable, "-B", *sys.argv, "--package", package]).returncode
                   for package in ("torch", "cupy")]
        played = [result for result in results if result != EXIT_SKIPPED]
        return EXIT_SKIPPED if not played else int(any(played))
    try:
        __import__(options.package)
    except ImportError as error:
        print(f"skipped: {error}")
        return EXIT_SKIPPED
    kinds = {"torch": torch_kinds, "cupy": cupy_kinds}[options.package]
    vmart = Vmart(options.library)
    return play(kinds(vmart, options.library), vmart, options)


if __name__ == "__main__":
    sys.exit(main())
