#!/usr/bin/env python3
"""vmart.numba with Numba itself, numba-cuda or its own numba.cuda, on simcuda: device arrays
are made, copied, moved and freed. Kernels need a GPU: tests/gpu/numba_package.py."""

import ctypes
import gc
import os
import subprocess
import sys
import threading
import unittest

if "SIMCUDA_MACHINE" not in os.environ:
    print("SKIPPED: this needs simcuda in LD_LIBRARY_PATH, which ctest sets")
    sys.exit(77)

try:
    import numpy as np
    from numba import cuda
except ImportError:
    print("SKIPPED: this needs Numba (PyPI: numba, numba-cuda)")
    sys.exit(77)

from machine_case import CHUNK, OnAMachine

import vmart

if not cuda.is_available():
    sys.exit(f"Numba does not take simcuda: {cuda.cuda_error()}")
MIB = 1 << 20


def context_of_thread():
    """The handle of the current one, or None."""
    handle = ctypes.c_void_p()
    ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(handle))
    return handle.value


class Arrays(OnAMachine):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.manager = vmart.numba.use(tag="arrays", chunk_bytes=CHUNK)

    def tearDown(self):
        gc.collect()
        for number in (0, 1):
            with cuda.gpus[number]:
                self.assertEqual(self.used(), 0)

    def used(self):
        manager = cuda.current_context().memory_manager
        manager.deallocations.clear()
        manager.pool.synchronize()
        return manager.pool.stats().used_bytes

    def test_an_array_moves_with_its_bytes_and_keeps_its_address(self):
        values = np.arange(MIB, dtype="int64")
        array = cuda.to_device(values)
        address = array.__cuda_array_interface__["data"][0]
        self.assertEqual([info.tag for info in vmart.allocations()], ["arrays"])
        for place in ("gpu1", "host0", cuda.gpus[0]):
            vmart.migrate(array, place)
            self.assertEqual(set(self.places(array)), {str(vmart.as_place(place))})
            np.testing.assert_array_equal(array.copy_to_host(), values)
        self.assertEqual(array.__cuda_array_interface__["data"][0], address)

    def test_an_array_moves_in_the_background_with_nothing_attached(self):
        array = cuda.device_array(8 * MIB, "uint8")
        vmart.migrate_async(array, "gpu1").wait(60)
        self.assertEqual(set(self.places(array)), {"gpu(1)"})

    def test_a_slice_keeps_the_block(self):
        array = cuda.to_device(np.arange(MIB, dtype="int32"))
        part = array[100:200]
        del array
        self.assertEqual(self.used(), 4 * MIB)
        np.testing.assert_array_equal(part.copy_to_host(), np.arange(100, 200))
        self.assertEqual(vmart.migrate(part, "gpu1").bytes_named, 400)
        del part
        self.assertEqual(self.used(), 0)

    def test_each_gpu_has_its_pool(self):
        arrays = []
        for number in (1, 0):
            with cuda.gpus[number]:
                arrays.append(cuda.device_array(MIB, "uint8"))
                self.assertEqual(self.used(), MIB)
        self.assertEqual([self.places(array) for array in arrays], [["gpu(1)"], ["gpu(0)"]])

    def test_an_array_may_end_while_another_gpu_is_current_and_in_any_thread(self):
        with cuda.gpus[1]:
            arrays = [cuda.device_array(MIB, "uint8") for _ in range(8)]
        with cuda.gpus[0]:
            before = context_of_thread()
            arrays.pop()
            self.assertEqual(context_of_thread(), before)
        left = [[array] for array in arrays]
        del arrays
        contexts = []

        def drop(box):
            box.clear()
            contexts.append(context_of_thread())

        threads = [threading.Thread(target=drop, args=(box,)) for box in left]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(contexts, [None] * 7)

    def test_want_of_memory_and_nothing(self):
        with self.assertRaises(vmart.OutOfMemory):
            cuda.device_array(1 << 42, "uint8")
        self.assertEqual(cuda.device_array(0).copy_to_host().size, 0)

    def test_memory_info_is_that_of_the_place(self):
        free, total = cuda.current_context().get_memory_info()
        array = cuda.device_array(64 * MIB, "uint8")
        less, same = cuda.current_context().get_memory_info()
        self.assertEqual(total, same)
        self.assertGreaterEqual(free - less, 32 * MIB)
        self.assertLess(free, total)
        del array

    def test_an_ipc_handle_is_refused_with_advice(self):
        array = cuda.device_array(10)
        with self.assertRaisesRegex(NotImplementedError, "vmart.export_allocation"):
            array.get_ipc_handle()

    def test_host_memory_is_numbas_own(self):
        pinned = cuda.pinned_array(1000, "uint8")
        pinned[:] = 7
        with self.assertRaises(vmart.UnknownPointer):
            vmart.where(pinned)

    def test_cleanup_can_be_deferred(self):
        pool = cuda.current_context().memory_manager.pool
        with cuda.defer_cleanup():
            for _ in range(30):
                cuda.device_array(MIB, "uint8")
            self.assertEqual(pool.stats().used_bytes, 30 * MIB)
        self.assertEqual(self.used(), 0)

    def test_memory_of_arrays_that_have_ended_is_used_before_want_of_memory(self):
        pool = cuda.current_context().memory_manager.pool
        room = pool.stats().reserved_bytes
        vmart.set_capacity("gpu0", room + 64 * MIB)
        self.addCleanup(vmart.set_capacity, "gpu0", 1 << 37)
        for _ in range(9):  # Not yet freed one by one.
            array = cuda.device_array(48 * MIB, "uint8")
            del array

    def test_reset_frees_what_arrays_refer_to(self):
        array = cuda.device_array(MIB, "uint8")
        cuda.current_context().reset()
        self.assertEqual(self.used(), 0)
        other = cuda.device_array(MIB, "uint8")  # Has the block, which the end of the first leaves alone.
        del array
        self.assertEqual(self.used(), MIB)
        del other

    def test_it_is_too_late_once_numba_has_used_a_gpu(self):
        cuda.current_context()
        with self.assertRaisesRegex(vmart.Busy, "before anything"):
            vmart.numba.use()


class Managers(OnAMachine):
    def test_the_interface(self):
        self.assertTrue(issubclass(vmart.numba.MemoryManager, cuda.HostOnlyCUDAMemoryManager))
        made = vmart.numba.MemoryManager(context=None)
        self.assertEqual(made.interface_version, 1)
        with self.assertRaises(vmart.InvalidArgument):
            made.pool

    def run_alone(self, lines, **environment):
        """In a process of its own, which has to end in silence."""
        done = subprocess.run(
            [sys.executable, "-B", "-c", "import vmart\n" + lines], capture_output=True,
            text=True, timeout=120, env={**os.environ, **environment},
            cwd=os.path.dirname(os.path.abspath(__file__)),
        )  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_the_environment_selects_it_and_a_program_ends_in_silence(self):
        printed = self.run_alone(
            "vmart.numba.MemoryManager.stream = vmart.make_stream('gpu0')\n"
            "from numba import cuda\n"
            "kept = [cuda.device_array(1 << 20, 'uint8') for _ in range(3)]\n"
            "kept.append(kept)\n"
            "print({info.tag for info in vmart.allocations()})\n",
            NUMBA_CUDA_MEMORY_MANAGER="vmart.numba",
        )
        self.assertEqual(printed, "{'numba'}\n")

    def test_memory_may_begin_elsewhere(self):
        printed = self.run_alone(
            "vmart.numba.use('host0', tag='far').stream = vmart.make_stream('gpu0')\n"
            "from numba import cuda\n"
            "array = cuda.device_array(1 << 20, 'uint8')\n"
            "print(*(extent.at for extent in vmart.where('far')))\n"
            "vmart.shutdown()\n"
        )
        self.assertEqual(printed, "host(0)\n")


if __name__ == "__main__":
    print(f"Numba's CUDA target: {cuda.implementation}")
    unittest.main()
