#!/usr/bin/env python3
"""An interpreter that ends while threads move memory that kernels of PyTorch or CuPy use.

exiting.py LIBVMART.SO torch|cupy [MILLISECONDS]     leaves with 77 without the module or two GPUs

Like `exiting.cpp` it prints "exits NANOSECONDS" before it ends; `exits.py` starts many. Nothing is tidied
up: the threads are daemons, memory and kernels are left to the interpreter's own end.
"""

import ctypes
import os
import sys
import threading
import time

EXIT_SKIPPED = 77
BYTES = 128 << 20


class Place(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("ordinal", ctypes.c_int)]


class Vmart:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.vmart_last_error.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        if getattr(self.library, name)(*arguments) != 0:
            raise RuntimeError(self.library.vmart_last_error().decode())

    def alloc(self):
        pointer = ctypes.c_void_p()
        self.call("vmart_alloc", ctypes.c_size_t(BYTES), Place(0, 0), ctypes.byref(pointer))
        return pointer.value

    def move_forever(self, pointer, live):
        """The calls let go of the interpreter's lock, so they are under way when it ends."""
        move = 0
        while True:
            move += 1
            to = Place(0, move % 2)
            whole = ctypes.c_void_p(pointer), ctypes.c_size_t(0), ctypes.c_size_t(BYTES), to, None
            try:
                if live:
                    migration = ctypes.c_void_p()
                    self.call("vmart_migrate_async", *whole, ctypes.byref(migration))
                    self.library.vmart_migration_wait(migration)  # A busy machine may end it.
                    self.library.vmart_migration_release(migration)
                else:
                    self.call("vmart_migrate", *whole, None)
            except RuntimeError as error:
                if "exiting" in str(error):
                    os.write(2, f"{error}\n".encode())


def torch_work(vmart):
    import torch

    if torch.cuda.device_count() < 2:
        return None
    torch.zeros(1, device="cuda")
    stream = torch.cuda.Stream()
    vmart.call("vmart_attach", ctypes.c_void_p(stream.cuda_stream))
    pointer = vmart.alloc()

    class Array:
        __cuda_array_interface__ = {"shape": (BYTES // 4,), "typestr": "<f4", "version": 3,
                                    "data": (pointer, False)}

    tensor = torch.as_tensor(Array(), device="cuda:0")

    def work():
        with torch.cuda.stream(stream):
            for _ in range(50):
                tensor.add_(1)
        stream.synchronize()

    return pointer, work


def cupy_work(vmart):
    import cupy

    try:
        if cupy.cuda.runtime.getDeviceCount() < 2:
            return None
    except cupy.cuda.runtime.CUDARuntimeError:  # There is no driver.
        return None
    cupy.zeros(1)
    stream = cupy.cuda.Stream(non_blocking=True)
    vmart.call("vmart_attach", ctypes.c_void_p(stream.ptr))
    pointer = vmart.alloc()
    memory = cupy.cuda.UnownedMemory(pointer, BYTES, None, 0)
    array = cupy.ndarray((BYTES // 4,), cupy.float32, cupy.cuda.MemoryPointer(memory, 0))
    add = cupy.RawKernel("""extern "C" __global__ void add_one(float* out, unsigned count) {
        for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
          out[i] += 1; }""", "add_one")

    def work():
        for _ in range(50):
            add((1024,), (256,), (array, cupy.uint32(BYTES // 4)), stream=stream)
        stream.synchronize()

    return pointer, work


def main(library, module, milliseconds="20"):
    vmart = Vmart(library)
    try:
        made = {"torch": torch_work, "cupy": cupy_work}[module](vmart)
    except ImportError:
        made = None
    if made is None:
        print(f"skipped: this needs {module} and two GPUs")
        return EXIT_SKIPPED
    pointer, work = made
    held = vmart.alloc()
    for move in (lambda: vmart.move_forever(pointer, True), lambda: vmart.move_forever(held, False)):
        threading.Thread(target=move, daemon=True).start()
    end = time.monotonic() + 0.5 + int(milliseconds) / 1000
    while time.monotonic() < end:
        work()
    print(f"exits {time.monotonic_ns()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
