#!/usr/bin/env python3
"""vmart.MemoryResource with cuda.core itself, on simcuda. tests/gpu/cuda_core_package.py
runs it with GPUs."""

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
    import cuda.core as core
except ImportError:
    print("SKIPPED: this needs cuda.core 1.2 (PyPI: cuda-core, cuda-bindings)")
    sys.exit(77)

from machine_case import CHUNK, OnAMachine

import vmart

try:
    vmart.MemoryResource
except ImportError as error:
    print(f"SKIPPED: {error}")
    sys.exit(77)

MIB = 1 << 20


class WithAResource(OnAMachine):
    def setUp(self):
        core.Device(0).set_current()
        self.handle = vmart.make_stream("gpu0")
        self.addCleanup(vmart.destroy_stream, self.handle)
        self.stream = core.Stream.from_handle(self.handle)
        self.resource = vmart.MemoryResource("gpu0", tag=self.id(), chunk_bytes=CHUNK)
        self.addCleanup(self.resource.close)

    def used(self):
        self.resource.pool.synchronize()
        return self.resource.pool.stats().used_bytes

    def run_alone(self, lines):
        """In a process of its own, which has to end in silence."""
        done = subprocess.run(
            [sys.executable, "-B", "-c", "import vmart\n" + lines], capture_output=True,
            text=True, timeout=120,
            cwd=os.path.dirname(os.path.abspath(__file__)),
        )  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout


class Buffers(WithAResource):
    def test_a_buffer_moves_with_its_bytes_and_keeps_its_address(self):
        host = core.LegacyPinnedMemoryResource()
        first, last = (host.allocate(5 * MIB, stream=self.stream) for _ in range(2))
        values = os.urandom(5 * MIB)
        ctypes.memmove(int(first.handle), values, 5 * MIB)
        buffer = self.resource.allocate(5 * MIB, stream=self.stream)
        address = int(buffer.handle)
        buffer.copy_from(first, stream=self.stream)
        report = vmart.migrate(buffer, core.Device(1))
        self.assertEqual((report.bytes_named, report.bytes_along), (5 * MIB, MIB))
        self.assertEqual(self.places(buffer), ["gpu(1)"])
        vmart.migrate_async([buffer], "host0").wait(60)
        self.assertEqual(self.places(buffer), ["host(0)"])
        buffer.copy_to(last, stream=self.stream)
        self.stream.sync()
        self.assertEqual(ctypes.string_at(int(last.handle), 5 * MIB), values)
        self.assertEqual(int(buffer.handle), address)

    def test_who_uses_it_stays_when_it_moves(self):
        buffer = self.resource.allocate(MIB, stream=self.stream)
        vmart.migrate(buffer, "gpu1")
        for each in (buffer, self.resource):
            self.assertEqual(each.device_id, 0)
            self.assertTrue(each.is_device_accessible)
            self.assertFalse(each.is_host_accessible)
            self.assertFalse(each.is_managed)
        self.assertEqual(buffer.__dlpack_device__(), (2, 0))
        self.assertIn("dltensor", str(buffer.__dlpack__()))

    def test_places(self):
        for device, at, user, place in ((1, None, 1, "gpu(1)"), (core.Device(0), "host0", 0, "host(0)"),
                                        ("gpu1", "gpu0", 1, "gpu(0)")):  # fmt: skip
            resource = vmart.MemoryResource(device, at=at)
            buffer = resource.allocate(MIB, stream=self.stream)
            self.assertEqual((buffer.device_id, self.places(buffer)), (user, [place]))
            buffer.close()
            resource.close()
        with self.assertRaisesRegex(vmart.InvalidArgument, "as at"):
            vmart.MemoryResource("host0")

    def test_the_device_that_is_current_is_the_default_one(self):
        core.Device(1).set_current()
        self.addCleanup(core.Device(0).set_current)
        resource = vmart.MemoryResource()
        self.addCleanup(resource.close)
        self.assertEqual(resource.device_id, 1)

    def test_a_device_allocates_by_it(self):
        device = core.Device(0)
        device.memory_resource = self.resource
        buffer = device.allocate(MIB, stream=self.stream)
        self.assertIs(buffer.memory_resource, self.resource)
        self.assertEqual(self.used(), MIB)

    def test_want_of_memory(self):
        with self.assertRaises(MemoryError) as caught:
            self.resource.allocate(1 << 42, stream=self.stream)
        self.assertIsInstance(caught.exception, vmart.OutOfMemory)

    def test_buffers_are_targets(self):
        buffers = {"a": self.resource.allocate(3 * MIB, stream=self.stream),
                   "none": self.resource.allocate(0, stream=self.stream)}  # fmt: skip
        self.assertEqual(vmart.migrate(buffers, "gpu1").bytes_named, 3 * MIB)
        own = core.Buffer.from_handle(0x1000, 16)
        with self.assertRaisesRegex(vmart.UnknownPointer, "vmart.MemoryResource"):
            vmart.where(own)
        buffers["a"].close()
        with self.assertRaisesRegex(vmart.InvalidArgument, "closed"):
            vmart.migrate(buffers, "gpu0")


class Lives(WithAResource):
    def test_a_buffer_is_freed_once_however_it_ends(self):
        other = core.Stream.from_handle(vmart.make_stream("gpu0"))
        closed = self.resource.allocate(MIB, stream=self.stream)
        elsewhere = self.resource.allocate(MIB, stream=self.stream)
        dropped = self.resource.allocate(MIB, stream=self.stream)
        cycle = [self.resource.allocate(MIB, stream=self.stream)]
        cycle.append(cycle)
        empty = self.resource.allocate(0, stream=self.stream)
        self.assertEqual(self.used(), 4 * MIB)
        self.assertEqual((int(empty.handle), empty.size), (0, 0))
        closed.close()
        closed.close()
        elsewhere.close(other)
        del dropped, cycle
        empty.close()
        gc.collect()
        self.assertEqual(self.used(), 0)

    def test_it_is_reused_in_the_order_of_its_stream(self):
        first = self.resource.allocate(MIB, stream=self.stream)
        address = int(first.handle)
        first.close()
        again = self.resource.allocate(MIB, stream=self.stream)
        self.assertEqual(int(again.handle), address)

    def test_a_stream_that_is_gone_costs_nothing(self):
        handle = vmart.make_stream("gpu0")
        buffer = self.resource.allocate(MIB, stream=core.Stream.from_handle(handle))
        vmart.destroy_stream(handle)
        buffer.close()
        self.assertEqual(self.used(), 0)

    def test_any_thread_frees(self):
        buffers = [self.resource.allocate(MIB, stream=self.stream) for _ in range(8)]
        threads = [threading.Thread(target=buffer.close) for buffer in buffers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.used(), 0)

    def test_what_cuda_core_refuses_is_freed(self):
        class Foreign:
            def __cuda_stream__(stream):
                return (0, self.handle)

        with self.assertRaises(TypeError):
            self.resource.allocate(MIB, stream=Foreign())
        self.assertEqual(self.used(), 0)

    def test_buffers_outlive_the_end_of_their_resource(self):
        resource = vmart.MemoryResource(0)
        buffer = resource.allocate(MIB, stream=self.stream)
        resource.close()
        with self.assertRaises(vmart.InvalidArgument):
            resource.allocate(MIB, stream=self.stream)
        vmart.migrate(buffer, "gpu1")
        buffer.close()

    def test_a_program_ends_in_silence_with_buffers_left(self):
        self.run_alone(
            "import cuda.core as core\n"
            "stream = core.Stream.from_handle(vmart.make_stream('gpu0'))\n"
            "resource = vmart.MemoryResource(0)\n"
            "kept = [resource.allocate(1 << 20, stream=stream) for _ in range(3)]\n"
            "kept.append(kept)\n"
            "class Late:\n"
            "    def __del__(self, buffer=resource.allocate(1 << 20, stream=stream)):\n"
            "        buffer.close()\n"
            "late = Late()\n"
        )

    def test_and_after_the_runtime(self):
        self.run_alone(
            "import cuda.core as core\n"
            "stream = core.Stream.from_handle(vmart.make_stream('gpu0'))\n"
            "buffer = vmart.MemoryResource(0).allocate(1 << 20, stream=stream)\n"
            "vmart.shutdown()\n"
            "buffer.close()\n"
        )


class Imports(WithAResource):
    def test_the_rest_needs_no_cuda_core(self):
        printed = self.run_alone(
            "import sys\n"
            "sys.modules['cuda.core'] = None\n"
            "vmart.migrate(vmart.alloc(1 << 21, 'gpu0'), 'gpu1')\n"
            "try:\n"
            "    vmart.MemoryResource\n"
            "except ImportError as error:\n"
            "    print('refused', 'MemoryResource' in dir(vmart))\n"
        )
        self.assertEqual(printed, "refused False\n")

    def test_an_old_cuda_core_is_refused_by_name(self):
        printed = self.run_alone(
            "import sys, types\n"
            "class Buffer:\n"
            "    @staticmethod\n"
            "    def from_handle(ptr, size, mr=None, owner=None): pass\n"
            "old = types.ModuleType('cuda.core')\n"
            "old.Buffer, old.MemoryResource, old.__version__ = Buffer, object, '1.1.1'\n"
            "sys.modules['cuda'] = types.ModuleType('cuda')\n"
            "sys.modules['cuda'].core = sys.modules['cuda.core'] = old\n"
            "try:\n"
            "    vmart.MemoryResource\n"
            "except ImportError as error:\n"
            "    print(error)\n"
        )
        self.assertEqual(printed, "vmart.MemoryResource needs cuda.core 1.2 or newer, and this is 1.1.1\n")


if __name__ == "__main__":
    unittest.main()
