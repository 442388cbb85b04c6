#!/usr/bin/env python3
"""NumPy arrays in memory of vmart: the CPU touches them wherever they lie; NumPy's own memory handler."""

import gc
import threading
import unittest

from machine_case import CHUNK, OnAMachine

import vmart

try:
    import numpy
except ImportError:
    import sys

    print("SKIPPED: NumPy is not installed", file=sys.stderr)
    sys.exit(77)


class ArraysThatFault(OnAMachine):
    def made(self, count=3 * CHUNK // 8, at="gpu0", **options):
        return vmart.numpy.zeros(count, at=at, chunk_bytes=CHUNK, **options)

    def test_the_cpu_reads_and_writes_what_lies_in_hbm(self):
        array = self.made()
        address = array.ctypes.data
        array[:] = numpy.arange(array.size)
        for _ in range(3):
            vmart.migrate(array, "gpu1")
            self.assertEqual(set(self.places(array)), {"gpu(1)"})
            self.assertEqual(array.sum(), array.size * (array.size - 1) / 2)
            self.assertEqual(set(self.places(array)), {"host(0)"})
            array += 1
            array -= 1
        self.assertEqual(array.ctypes.data, address)

    def test_only_what_is_touched_comes(self):
        array = self.made(16 * CHUNK // 8)
        array[-1] = 7
        places = self.places(array)
        self.assertEqual((places[0], places[-1]), ("gpu(0)", "host(0)"))

    def test_ufuncs_write_into_it(self):
        array = self.made()
        values = numpy.linspace(0, 1, array.size)
        numpy.sin(values, out=array)
        vmart.migrate(array, "gpu0")
        self.assertTrue(numpy.array_equal(array, numpy.sin(values)))

    def test_views_and_copies(self):
        array = self.made().reshape(3, -1)
        view = array[1]
        view[:] = 5
        copy = view.copy()
        vmart.migrate(view, "gpu1")
        self.assertEqual((copy == view).all(), True)
        self.assertEqual(array[0].any() or array[2].any(), False)
        del array
        gc.collect()
        self.assertEqual(view[0], 5)

    def test_threads_touch_it_beside_moves(self):
        array = self.made()
        ended = threading.Event()

        def counts(part):
            for _ in range(50):
                part += 1

        def moves():
            while not ended.is_set():
                vmart.migrate(array, "gpu1")

        mover = threading.Thread(target=moves)
        workers = [threading.Thread(target=counts, args=(part,)) for part in array.reshape(3, -1)]
        for thread in [mover, *workers]:
            thread.start()
        for worker in workers:
            worker.join()
        ended.set()
        mover.join()
        self.assertTrue((array == 50).all())

    def test_gpus_see_the_same_address(self):
        array = self.made()[::2]
        interface = vmart.numpy.on_gpu(array).__cuda_array_interface__
        self.assertEqual(interface["data"][0], array.ctypes.data)
        self.assertEqual(interface["strides"], array.strides)
        with self.assertRaises(vmart.UnknownPointer):
            vmart.numpy.on_gpu(numpy.zeros(10))

    def test_it_and_hooks_of_python_exclude_each_other(self):
        gc.collect()
        array, other = self.made(), vmart.alloc(CHUNK, "gpu0")
        with self.assertRaisesRegex(vmart.Unsupported, "cpu_access"):
            vmart.on_move(other, lambda event: None)
        del array
        gc.collect()
        with vmart.on_move(other, lambda event: None):
            with self.assertRaisesRegex(vmart.Unsupported, "on_move"):
                self.made()
            with vmart.numpy.handler("host0", least_bytes=CHUNK):  # NumPy goes on by itself.
                ordinary = numpy.ones(CHUNK)
            with self.assertRaises(vmart.UnknownPointer):
                vmart.where(ordinary)
        self.made()

    def test_buffers_of_it_move_freely(self):
        memory = vmart.alloc(CHUNK, "gpu0", cpu_access="fault", zeroed=True)
        view = memoryview(memory)
        view[0:3] = b"abc"
        vmart.migrate(memory, "gpu1")
        self.assertEqual(bytes(view[0:4]), b"abc\0")
        with self.assertRaises(vmart.InvalidArgument):
            vmart.alloc(CHUNK, "gpu0", cpu_access="sometimes")


class Handler(OnAMachine):
    def tagged(self):
        return [info for info in vmart.allocations() if info.tag == "handled"]

    def test_large_arrays_are_memory_of_vmart(self):
        with vmart.numpy.handler("host0", least_bytes=CHUNK, tag="handled"):
            small, large = numpy.ones(100), numpy.ones(CHUNK)
            result = large * 2
        outside = numpy.ones(CHUNK)
        self.assertEqual(len(self.tagged()), 2)
        self.assertEqual(numpy.lib.array_utils.byte_bounds(large)[0], self.tagged()[0].pointer
                         if self.tagged()[0].pointer == large.ctypes.data else self.tagged()[1].pointer)  # fmt: skip
        for array in (small, outside):
            with self.assertRaises(vmart.UnknownPointer):
                vmart.where(array)
        vmart.migrate([large, result], "gpu1")
        self.assertEqual(set(self.places([large, result])), {"gpu(1)"})
        self.assertTrue((result == 2 * large).all())
        del large, result
        gc.collect()
        self.assertEqual(self.tagged(), [])

    def test_arrays_grow_and_shrink_across_the_limit(self):
        with vmart.numpy.handler("host0", least_bytes=CHUNK, tag="handled"):
            array = numpy.arange(1000)
            array.resize(CHUNK, refcheck=False)
            self.assertEqual(len(self.tagged()), 1)
            self.assertTrue((array[:1000] == numpy.arange(1000)).all() and not array[1000:].any())
            array.resize(500, refcheck=False)
            self.assertEqual(self.tagged(), [])
            self.assertTrue((array == numpy.arange(500)).all())

    def test_want_of_memory_is_numpys_error(self):
        with vmart.numpy.handler("host0", least_bytes=CHUNK):
            with self.assertRaises(MemoryError):
                numpy.empty(1 << 43, dtype="uint8")

    def test_the_handler_before_is_back_after_an_exception(self):
        with self.assertRaises(ZeroDivisionError):
            with vmart.numpy.handler("host0", least_bytes=1, tag="handled"):
                raise ZeroDivisionError
        array = numpy.ones(CHUNK)
        self.assertEqual((self.tagged(), array[0]), ([], 1))


if __name__ == "__main__":
    unittest.main()
