#!/usr/bin/env python3
"""vmart as CuPy's allocator. CuPy needs a GPU, so a stand-in has the four functions that are used, as
CuPy 14 documents them; what they call is real, on a simulated machine. tests/gpu/cupy_package.py runs
CuPy itself."""

import contextlib
import sys
import threading
import types
import unittest
import weakref

from machine_case import OnAMachine

import vmart


class OutOfMemoryError(MemoryError):
    def __init__(self, size, total, limit=0):
        super().__init__(f"{size} of {total}")


class PythonFunctionAllocator:
    """Calls with (size, device) and (pointer, device), as CuPy's class does."""

    def __init__(self, malloc, free):
        self._malloc, self._free = malloc, free

    def malloc(self, size):
        return Block(self, size, cuda.device)


class Block:
    def __init__(self, allocator, size, device):
        self.ptr = allocator._malloc(size, device)
        self._free = (allocator._free, device)

    def free(self):
        function, device = self._free
        function(self.ptr, device)


@contextlib.contextmanager
def device_context(device):
    before, cuda.device = cuda.device, device
    try:
        yield
    finally:
        cuda.device = before


cuda = types.SimpleNamespace(
    Device=device_context,
    device=0,
    stream=0,
    allocator="CuPy's own",
    get_allocator=lambda: cuda.allocator,
    set_allocator=lambda allocator: setattr(cuda, "allocator", allocator),
    get_current_stream=lambda: types.SimpleNamespace(ptr=cuda.stream),
    PythonFunctionAllocator=PythonFunctionAllocator,
    memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
    runtime=types.SimpleNamespace(free=lambda pointer: None, getDeviceCount=lambda: 2),
)
sys.modules["cupy"] = types.SimpleNamespace(cuda=cuda)


class Array:
    """A contiguous array over a block."""

    def __init__(self, nbytes):
        self.block = cuda.allocator(nbytes)
        self.__cuda_array_interface__ = {
            "shape": (nbytes,), "typestr": "|u1", "data": (self.block.ptr, False), "version": 3,
        }  # fmt: skip


class Use(OnAMachine):
    def setUp(self):
        self.streams = [vmart.make_stream(f"gpu{number}") for number in (0, 1)]
        cuda.device, cuda.stream = 0, self.streams[0]
        self.allocator = vmart.cupy.use(tag="arrays")

        def ends():
            self.allocator.release()
            for stream in self.streams:
                vmart.destroy_stream(stream)

        self.addCleanup(ends)

    def test_arrays_move_and_are_freed(self):
        large, small = Array(8 << 20), Array(1000)
        report = vmart.migrate(large, "gpu1")
        self.assertEqual(set(self.places(large)), {"gpu(1)"})
        self.assertGreaterEqual(report.bytes_moved, 8 << 20)
        pool = self.allocator.pool(0)
        self.assertGreaterEqual(pool.stats().used_bytes, (8 << 20) + 1000)
        large.block.free()
        small.block.free()
        pool.synchronize()
        self.assertEqual(pool.stats().used_bytes, 0)

    def test_a_block_is_reused_on_its_stream(self):
        first = Array(4096)
        pointer = first.block.ptr
        first.block.free()
        self.assertEqual(Array(4096).block.ptr, pointer)

    def test_each_gpu_has_its_pool(self):
        cuda.device, cuda.stream = 1, self.streams[1]
        self.assertEqual(set(self.places(Array(1000))), {"gpu(1)"})
        cuda.device, cuda.stream = 0, self.streams[0]
        self.assertEqual(set(self.places(Array(1000))), {"gpu(0)"})

    def test_an_array_ends_with_its_gpu_current(self):
        """Its stream may be the default one, whose handle all GPUs share."""
        cuda.device, cuda.stream = 1, self.streams[1]
        array = Array(4096)
        cuda.device = 0
        blocks = self.allocator._blocks[1]
        deallocate, current = blocks.deallocate, []

        def note(pointer, stream, owner):
            current.append(cuda.device)
            deallocate(pointer, stream, owner)

        blocks.deallocate = note
        array.block.free()
        self.assertEqual((current, cuda.device), ([1], 0))

    def test_a_stream_lives_as_long_as_its_arrays(self):
        """The driver crashes if it is asked about one that was destroyed."""

        class Stream:
            ptr = self.streams[0]

        made = Stream()
        seen = weakref.ref(made)
        before, cuda.get_current_stream = cuda.get_current_stream, lambda: made
        array = Array(4096)
        cuda.get_current_stream = before
        del made
        self.assertIsNotNone(seen())
        array.block.free()
        self.assertIsNone(seen())

    def test_each_thread_has_a_context_before_it_allocates(self):
        threads = []
        before, cuda.runtime.free = cuda.runtime.free, lambda _: threads.append(threading.get_ident())
        self.addCleanup(setattr, cuda.runtime, "free", before)
        for _ in range(2):
            thread = threading.Thread(target=lambda: [Array(4096) for _ in range(3)])
            thread.start()
            thread.join()
        self.assertEqual(len(threads), 2)

    def test_a_stream_that_is_gone_costs_nothing(self):
        cuda.stream = vmart.make_stream("gpu0")
        array = Array(4096)
        vmart.destroy_stream(cuda.stream)
        cuda.stream = self.streams[0]
        used = self.allocator.pool(0).stats().used_bytes
        array.block.free()
        self.assertLess(self.allocator.pool(0).stats().used_bytes, used)

    def test_want_of_memory_is_cupys_error(self):
        with self.assertRaises(OutOfMemoryError):
            Array(1 << 42)

    def test_release_restores_the_allocator_before(self):
        self.allocator.release()
        self.assertEqual(cuda.allocator, "CuPy's own")
        self.allocator.release()


class WithoutAGpu(unittest.TestCase):
    def test_use_says_why_it_cannot(self):
        def count():
            raise RuntimeError("cudaErrorInsufficientDriver")

        before, cuda.runtime.getDeviceCount = cuda.runtime.getDeviceCount, count
        self.addCleanup(setattr, cuda.runtime, "getDeviceCount", before)
        with self.assertRaisesRegex(vmart.NoDriver, "finds no GPU: cudaErrorInsufficientDriver.*simulated"):
            vmart.cupy.use()
        self.assertEqual(cuda.allocator, "CuPy's own")


if __name__ == "__main__":
    unittest.main()
