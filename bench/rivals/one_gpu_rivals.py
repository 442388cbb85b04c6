#!/usr/bin/env python3
"""Rivals that need one GPU and the driver, no compiler and no PyTorch.

    one_gpu_rivals.py LIBVMART.SO [--repetitions 5] [--benchmark_filter=RE] [--benchmark_out=FILE]

    prefetch/gpu0-host0/4GiB, prefetch/host0-gpu0/4GiB   managed memory, prefetched to the host and back
    naive/gpu0-host0/4GiB, naive/host0-gpu0/4GiB         new memory there, copy, unmap both, map at the old address
    naive_park/kept/8GiB, naive_park/dropped/8GiB        unmap and release, then create, map and grant again; `kept` copies
                                                         to page-locked memory, which stays, and back
    checkpoint_park/host/8GiB                            the driver's checkpoint of a process with so much memory, and its
    checkpoint_park/custom/8GiB                          restore; `custom` with custom storage, where the driver has it

Warm: the first time of each is not a sample. Words of the memory are compared at the end of each case. The library is not
loaded; it is there so that all scripts are called alike. VMART_BENCH_BYTES_MAX limits the sizes, VMART_BENCH_REPETITIONS the
samples. Leaves with 77 without a GPU, or if the driver has none of the calls. What it writes reads like Google Benchmark's output.
"""

import ctypes
import os
import pathlib
import subprocess
import sys
import time

BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(BENCH), str(BENCH / "unmodified")]
from checkpoints import Checkpoints, PinnedStorage, Refused, Unavailable
from harness.programs import Benchmarks, skip

GIB = 1 << 30
WORD = 0x5EED1234
PINNED, DEVICE, HOST_NUMA, READ_WRITE = 1, 1, 3, 3  # Values of cuda.h.
TO_HOST = -1  # CU_DEVICE_CPU
ENDS_S = 60


class Memory(ctypes.Structure):
    """`CUmemAllocationProp`"""
    _fields_ = [("kind", ctypes.c_int), ("exports_as", ctypes.c_int), ("place", ctypes.c_int), ("number", ctypes.c_int),
                ("of_windows", ctypes.c_void_p), ("flags", ctypes.c_char * 8)]


class Access(ctypes.Structure):
    """`CUmemAccessDesc`"""
    _fields_ = [("place", ctypes.c_int), ("number", ctypes.c_int), ("flags", ctypes.c_int)]


class Driver:
    """libcuda and the primary context of GPU 0. Throws: Refused with the call that failed."""

    def __init__(self):
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise Refused(str(error)) from error
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result != 0:
            raise Refused(f"{name} returned {result}")

    def wait(self):
        self.call("cuCtxSynchronize")

    def fill(self, address, size):
        self.call("cuMemsetD32_v2", address, ctypes.c_uint(WORD), ctypes.c_size_t(size // 4))
        self.wait()

    def check(self, address, size):
        """Compares the first, the last and words between them."""
        word = ctypes.c_uint()
        for offset in (0, size // 3 // 4 * 4, size // 2, size - 4):
            self.call("cuMemcpyDtoH_v2", ctypes.byref(word), ctypes.c_uint64(address.value + offset), ctypes.c_size_t(4))
            if word.value != WORD:
                raise Refused(f"the word at {offset} has changed")


class ManagedMemory:
    def __init__(self, driver, size):
        self.driver, self.size, self.address = driver, size, ctypes.c_uint64()
        driver.call("cuMemAllocManaged", ctypes.byref(self.address), ctypes.c_size_t(size), 1)
        driver.fill(self.address, size)
        self.at_host = False

    def move(self):
        """To the other place. `cuMemPrefetchAsync` by that name takes an ordinal, with every driver."""
        self.at_host = not self.at_host
        self.driver.call("cuMemPrefetchAsync", self.address, ctypes.c_size_t(self.size), TO_HOST if self.at_host else 0, None)
        self.driver.wait()

    def close(self):
        self.driver.check(self.address, self.size)
        self.driver.call("cuMemFree_v2", self.address)


class MappedMemory:
    """Memory on GPU 0 at an address of its own, by the driver's virtual memory management."""

    def __init__(self, driver, size):
        self.driver, self.size, self.at_host = driver, size, False
        self.address, self.pinned = self.reserve(), ctypes.c_void_p()
        self.handle = self.create(DEVICE)
        self.map(self.address, self.handle)
        driver.fill(self.address, size)

    def reserve(self):
        address = ctypes.c_uint64()
        self.driver.call("cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(self.size), ctypes.c_size_t(0),
                         ctypes.c_uint64(0), ctypes.c_uint64(0))
        return address

    def create(self, place):
        handle = ctypes.c_uint64()
        self.driver.call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(self.size),
                         ctypes.byref(Memory(kind=PINNED, place=place)), ctypes.c_uint64(0))
        return handle

    def map(self, address, handle):
        self.driver.call("cuMemMap", address, ctypes.c_size_t(self.size), ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
        self.driver.call("cuMemSetAccess", address, ctypes.c_size_t(self.size), ctypes.byref(Access(DEVICE, 0, READ_WRITE)),
                         ctypes.c_size_t(1))

    def unmap(self, address):
        self.driver.call("cuMemUnmap", address, ctypes.c_size_t(self.size))

    def move(self):
        target, temporary = self.create(DEVICE if self.at_host else HOST_NUMA), self.reserve()
        self.map(temporary, target)
        self.driver.call("cuMemcpyDtoDAsync_v2", temporary, self.address, ctypes.c_size_t(self.size), None)
        self.driver.wait()
        self.unmap(self.address)
        self.driver.call("cuMemRelease", self.handle)
        self.unmap(temporary)
        self.driver.call("cuMemAddressFree", temporary, ctypes.c_size_t(self.size))
        self.map(self.address, target)
        self.handle, self.at_host = target, not self.at_host

    def keep_copies(self):
        self.driver.call("cuMemHostAlloc", ctypes.byref(self.pinned), ctypes.c_size_t(self.size), 0)

    def park(self):
        if self.pinned:
            self.driver.call("cuMemcpyDtoHAsync_v2", self.pinned, self.address, ctypes.c_size_t(self.size), None)
            self.driver.wait()
        self.unmap(self.address)
        self.driver.call("cuMemRelease", self.handle)

    def resume(self):
        self.handle = self.create(DEVICE)
        self.map(self.address, self.handle)
        if self.pinned:
            self.driver.call("cuMemcpyHtoDAsync_v2", self.address, self.pinned, ctypes.c_size_t(self.size), None)
            self.driver.wait()

    def close(self, whole=True):
        if whole:
            self.driver.check(self.address, self.size)
        self.unmap(self.address)
        self.driver.call("cuMemRelease", self.handle)
        if self.pinned:
            self.driver.call("cuMemFreeHost", self.pinned)


class HoldingProcess:
    """Another process with so much memory on GPU 0, which it compares when it ends."""

    def __init__(self, size):
        self.process = subprocess.Popen([sys.executable, "-B", __file__, "--hold", str(size)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise Refused("the process with the memory did not begin")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def end(self):
        """Throws: Refused if its memory has changed."""
        said, _ = self.process.communicate("end\n", timeout=ENDS_S)
        if said != "whole\n":
            raise Refused(f"the memory of the process has changed: {said!r}")


def hold(size):
    driver, address = Driver(), ctypes.c_uint64()
    driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
    driver.fill(address, size)
    print("ready", flush=True)
    sys.stdin.readline()
    driver.check(address, size)
    print("whole", flush=True)


def timed(call):
    begin = time.monotonic()
    call()
    return time.monotonic() - begin


class Cases:
    def __init__(self, benchmarks, repetitions, bytes_max):
        self.benchmarks, self.repetitions, self.bytes_max = benchmarks, repetitions, bytes_max
        self.driver = Driver()
        self.unavailable = []

    def size(self, size):
        size = min(size, self.bytes_max)
        return size, f"{size >> 30}GiB" if size % GIB == 0 else f"{size >> 20}MiB"

    def run(self, names, take):
        """The error of a case is its entry."""
        if not any(self.benchmarks.wants(name) for name in names):
            return
        try:
            take(names)
        except Unavailable as error:
            self.unavailable.append(str(error))
        except Refused as refused:
            self.benchmarks.add(names[0], "us", 0, str(refused))

    def run_all(self):
        for name, kind in (("prefetch", ManagedMemory), ("naive", MappedMemory)):
            size, label = self.size(4 * GIB)
            self.run([f"{name}/gpu0-host0/{label}", f"{name}/host0-gpu0/{label}"],
                     lambda names, size=size, kind=kind: self.moves(names, kind(self.driver, size)))
        size, label = self.size(8 * GIB)
        self.run([f"naive_park/kept/{label}"], lambda names: self.parks(names, size, True))
        self.run([f"naive_park/dropped/{label}"], lambda names: self.parks(names, size, False))
        for what in ("host", "custom"):
            self.run([f"checkpoint_park/{what}/{label}"], lambda names, what=what: self.checkpoints(names, size, what == "custom"))

    def moves(self, names, memory):
        for _ in (0, 1):
            memory.move()
        for _ in range(self.repetitions):
            for name in names:
                self.benchmarks.add(name, "us", timed(memory.move) * 1e6)
        memory.close()

    def parks(self, names, size, keeps):
        memory = MappedMemory(self.driver, size)
        if keeps:
            memory.keep_copies()
        self.sleeps(names[0], memory.park, memory.resume, timed)
        memory.close(whole=keeps)

    def checkpoints(self, names, size, custom):
        checkpoints = Checkpoints()
        storage = PinnedStorage(checkpoints) if custom else None
        with HoldingProcess(size) as held:
            process = held.process.pid
            self.sleeps(names[0], lambda: checkpoints.sleep(process, storage), lambda: checkpoints.wake(process, storage),
                        lambda call: call())
            held.end()

    def sleeps(self, name, park, resume, seconds_of):
        for number in range(self.repetitions + 1):
            parked, resumed = seconds_of(park), seconds_of(resume)
            if number > 0:
                self.benchmarks.add(name, "us", (parked + resumed) * 1e6, park_us=parked * 1e6, resume_us=resumed * 1e6)


def main():
    if "--hold" in sys.argv:
        hold(int(sys.argv[sys.argv.index("--hold") + 1]))
        return 0
    benchmarks = Benchmarks(__doc__, repetitions=(int(os.environ.get("VMART_BENCH_REPETITIONS", "5")), "samples of each case"))
    try:
        cases = Cases(benchmarks, benchmarks.flags.repetitions, int(os.environ.get("VMART_BENCH_BYTES_MAX", 16 * GIB)))
    except Refused as error:
        return skip(f"no GPU here: {error}")
    cases.run_all()
    if cases.unavailable and not benchmarks.entries:
        return skip(cases.unavailable[0])
    return benchmarks.status()


if __name__ == "__main__":
    sys.exit(main())
