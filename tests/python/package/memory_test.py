#!/usr/bin/env python3
"""Memory as Python objects: lifetimes, views of the CPU and of other libraries, pools, hooks."""

import gc
import inspect
import subprocess
import sys
import tempfile
import unittest

from machine_case import CHUNK, OnAMachine

import vmart
from vmart.blocks import Blocks


class Allocations(OnAMachine):
    def test_memory_ends_with_its_last_owner(self):
        memory = vmart.alloc(CHUNK, "gpu0", tag="mortal")
        self.assertEqual([info.tag for info in vmart.allocations() if info.tag == "mortal"], ["mortal"])
        del memory
        gc.collect()
        self.assertEqual([info for info in vmart.allocations() if info.tag == "mortal"], [])

    def test_freed_memory_refuses_all(self):
        memory = vmart.alloc(CHUNK, "gpu0")
        memory.free()
        self.assertTrue(memory.freed)
        for call in (memory.free, lambda: memory.pointer, lambda: memory.write(b"1")):
            with self.assertRaisesRegex(vmart.UnknownPointer, "freed"):
                call()

    def test_reads_and_writes_within_bounds(self):
        memory = self.made()
        memory.write(b"12345678", CHUNK - 4)
        out = bytearray(8)
        memory.read_into(out, CHUNK - 4)
        self.assertEqual(out, b"12345678")
        small = vmart.alloc(100, "gpu0")  # Its chunk is larger.
        for offset in (93, memory.pointer - small.pointer, 1 << 63):
            with self.assertRaises((vmart.InvalidArgument, TypeError)):
                small.write(b"12345678", offset)
            with self.assertRaises((vmart.InvalidArgument, TypeError)):
                small.read_into(bytearray(8), offset)
        for shape in ((26,), (1 << 40, 1 << 40)):
            with self.assertRaises(vmart.InvalidArgument):
                small.array(shape, "f", 32)
        with self.assertRaises((TypeError, BufferError)):
            memory.read_into(b"constant")

    def test_a_view_shows_host_memory_and_keeps_it_there(self):
        memory = self.made(at="host0")
        view = memoryview(memory)
        view[0:4] = b"abcd"
        with self.assertRaises(vmart.Pinned):
            vmart.migrate(memory, "gpu0")
        with self.assertRaises(vmart.Pinned):
            memory.free()
        view.release()
        vmart.migrate(memory, "gpu0")
        with self.assertRaisesRegex(BufferError, r"gpu\(0\)"):
            memoryview(memory)
        out = bytearray(4)
        memory.read_into(out)
        self.assertEqual(out, b"abcd")

    def test_a_forgotten_view_keeps_the_memory(self):
        view = memoryview(vmart.alloc(CHUNK, "host0", zeroed=True, tag="viewed"))
        gc.collect()
        self.assertEqual(bytes(view[:8]), bytes(8))
        self.assertIn("viewed", [info.tag for info in vmart.allocations()])
        view.release()
        del view
        gc.collect()
        self.assertNotIn("viewed", [info.tag for info in vmart.allocations()])


    def test_memory_that_is_shown_to_the_cpu_is_not_freed(self):
        for at, access in (("host0", "view"), ("gpu0", "fault")):
            array = vmart.empty((CHUNK // 4,), "float32", at=at, cpu_access=access)
            shown = array.numpy()
            shown[:] = 3
            with memoryview(array.allocation):
                with self.assertRaisesRegex(vmart.Pinned, "2 arrays or buffers of the CPU show the memory"):
                    array.free()
            with self.assertRaisesRegex(vmart.Pinned, "delete it first"):
                array.allocation.free()
            self.assertEqual(float(shown[5]), 3)
            del shown
            array.free()
            self.assertTrue(array.allocation.freed)


class Arrays(OnAMachine):
    def setUp(self):
        self.numpy = __import__("numpy")

    def test_numpy_shares_the_bytes(self):
        array = vmart.empty((4, 8), "int32", at="host0", zeroed=True)
        shown = array.numpy()
        shown[1, 2] = 7
        self.assertEqual(shown.__array_interface__["data"][0], array.pointer)
        again = self.numpy.from_dlpack(array.numpy())
        self.assertEqual((again[1, 2], again.sum()), (7, 7))
        with self.assertRaises(vmart.Pinned):
            vmart.migrate(array, "gpu0")
        del shown, again
        vmart.migrate(array, "gpu0")
        with self.assertRaises(vmart.Unsupported):
            array.numpy()

    def test_the_cuda_array_interface_names_the_memory(self):
        array = vmart.empty((3, 5), "complex64", at="gpu1")
        interface = array.__cuda_array_interface__
        self.assertEqual(interface["data"], (array.pointer, False))
        self.assertEqual((interface["shape"], interface["typestr"]), ((3, 5), "<c8"))
        self.assertEqual(array.nbytes, 120)

    def test_dlpack_names_the_gpu(self):
        array = vmart.empty(10, "float64", at="gpu1")
        self.assertEqual(array.__dlpack_device__(), (2, 1))
        for refused in ({"copy": True}, {"dl_device": (2, 7)}):
            with self.assertRaises(BufferError):
                array.__dlpack__(**refused)
        capsule = array.__dlpack__()
        self.assertIn("dltensor", repr(capsule))

    def test_numpys_functions_take_what_lies_at_the_host(self):
        array = vmart.empty(self.numpy.int64(4), "float32", at="host0", zeroed=True)
        self.assertEqual(self.numpy.add(array, 1).tolist(), [1, 1, 1, 1])
        self.assertEqual(self.numpy.asarray(array).ctypes.data, array.pointer)
        self.assertEqual(array.__array__(array.dtype, copy=False).ctypes.data, array.pointer)
        self.assertEqual(array.__array__("float16").dtype, "float16")
        with self.assertRaisesRegex(ValueError, "cannot be one of float16 without a copy"):
            array.__array__("float16", copy=False)

    def test_impossible_shapes_are_refused(self):
        for shape in (-1, (-2, 3)):
            with self.assertRaises(vmart.InvalidArgument):
                vmart.empty(shape)

    def test_types_of_numpy_and_their_names_mean_the_same(self):
        for name in ("bool", "int8", "uint16", "float16", "float64", "complex128"):
            made = vmart.empty(2, self.numpy.dtype(name), at="gpu0")
            self.assertEqual(made.typestr, vmart.empty(2, name, at="gpu0").typestr)
        for wrong in (">f4", "U5", object):
            with self.assertRaises(vmart.InvalidArgument):
                vmart.empty(2, wrong, at="gpu0")

    def test_types_of_ml_dtypes_are_shown_as_themselves(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("needs ml_dtypes")
        for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            kind = getattr(ml_dtypes, name)
            for dtype in (name, kind, self.numpy.dtype(kind)):
                array = vmart.empty((2, 4), dtype, at="host0", zeroed=True)
                self.assertEqual(array.dtype, self.numpy.dtype(kind))
                array[1, :] = 1.5
                self.assertEqual(array.numpy().astype("float32").sum(), 6)
                self.assertEqual(array.nbytes, 8 * self.numpy.dtype(kind).itemsize)
            self.assertIn("dltensor", repr(vmart.empty(4, name, at="gpu0").__dlpack__()))
            with self.assertRaisesRegex(AttributeError, "use DLPack"):
                vmart.empty(4, name, at="gpu0").__cuda_array_interface__

    def test_indices_follow_the_rules_of_numpy_where_the_cpu_may_touch(self):
        for at, access in (("host0", "view"), ("gpu0", "fault")):
            array = vmart.empty((3, 4), "int32", at=at, cpu_access=access, zeroed=True)
            array[1, 2:] = [5, 6]
            array[-1] = 9
            self.assertEqual(array[1].tolist(), [0, 0, 5, 6])
            self.assertEqual(array[array.numpy() > 5].tolist(), [6, 9, 9, 9, 9])
            self.assertEqual((array.ndim, array.size, array.itemsize, len(array)), (2, 12, 4, 3))
            with self.assertRaises(IndexError):
                array[7]
            self.assertEqual([row.tolist() for row in array][2], [9] * 4)
        array = vmart.empty((3, 4), "int32", at="gpu1")
        for touch in (lambda: array[0], lambda: array.__setitem__(0, 1), lambda: self.numpy.asarray(array)):
            with self.assertRaisesRegex(vmart.Unsupported, 'at gpu1, where the CPU .*"host0".*read_into.*fault'):
                touch()

    def test_strided_arrays_stand_for_all_that_they_reach(self):
        base = self.numpy.zeros((10, 10))
        for view in (base[2:5, 3:7], base[::-1, ::2], base.T[1:, 4], base[3:3]):
            ranges = vmart.targets.ranges_of(view)
            low, high = self.numpy.lib.array_utils.byte_bounds(view)
            self.assertEqual(ranges, [(low, high - low)] if view.size else [])


class Pools(OnAMachine):
    def test_blocks_move_with_their_pool(self):
        stream = vmart.make_stream("gpu0")
        self.addCleanup(vmart.destroy_stream, stream)
        pool = vmart.make_pool("gpu0", tag="blocks")
        first, second = pool.allocate(1000, stream), pool.allocate(5000, stream)
        self.assertEqual((first % 256, second % 256), (0, 0))
        self.assertGreaterEqual(pool.stats().used_bytes, 6000)
        self.assertEqual(vmart.migrate(pool, "gpu1").outcome, "done")
        self.assertEqual(self.places(first), ["gpu(1)"])
        pool.deallocate(first, stream)
        pool.deallocate(second, stream)
        with self.assertRaises(vmart.UnknownPointer):
            pool.deallocate(first, stream)
        pool.synchronize()
        self.assertEqual(pool.stats().used_bytes, 0)
        pool.destroy()


class CapturingPool:
    """Refuses frees while it captures, as a pool does, which needs a GPU."""

    def __init__(self):
        self.captures, self.freed, self.asked = True, [], 0
        self.refusal = vmart.InvalidArgument("a stream captures", "vma::Pool::deallocate")

    def allocate(self, nbytes, stream):
        return 0x1000

    def deallocate(self, pointer, stream):
        self.asked += 1
        if self.captures:
            raise self.refusal
        self.freed.append((pointer, stream))

    def synchronize(self):
        if self.captures == "and cannot be waited for":
            raise self.refusal

    def deallocate_now(self, pointer):
        self.freed.append((pointer, "now"))


class FreedBlocks(unittest.TestCase):
    def test_what_is_dropped_in_a_capture_is_freed_after_it(self):
        pool = CapturingPool()
        blocks = Blocks(pool)
        for number in (1, 2):
            blocks.deallocate(number, 7)
        blocks.allocate(5, 7)
        self.assertEqual(pool.freed, [])
        pool.captures = False
        blocks.allocate(5, 7)
        self.assertEqual(pool.freed, [(1, 7), (2, 7)])

    def test_another_stream_may_be_the_one_that_captures(self):
        pool = CapturingPool()
        blocks = Blocks(pool)
        pool.refusal = vmart.DriverFailure("cuStreamIsCapturing: 906", "", 906)
        for number in range(1, 1001):
            blocks.deallocate(number, 0)
        self.assertEqual((pool.freed, pool.asked), ([], 1000), "each free is tried once")
        pool.captures = False
        blocks.deallocate(1001, 0)
        self.assertEqual(sorted(pool.freed), [(number, 0) for number in range(1, 1002)])

    def test_the_stream_or_its_context_may_be_gone(self):
        pool = CapturingPool()
        blocks = Blocks(pool)
        for number, gone in enumerate((vmart.DriverFailure("", "", 400), vmart.DriverGone("", "", 709)), 1):
            pool.refusal = gone
            blocks.deallocate(number, 7)
        self.assertEqual(pool.freed, [(1, "now"), (2, "now")])
        pool.refusal = vmart.DriverGone("the runtime has ended", "")
        blocks.deallocate(3, 7)
        self.assertEqual(len(pool.freed), 2)

    def test_a_failure_loses_no_block_and_meets_nobody_else(self):
        pool = CapturingPool()
        blocks = Blocks(pool)
        pool.captures = "and cannot be waited for"
        pool.refusal = vmart.DriverFailure("", "", 400)
        with self.assertLogs("vmart.blocks"):
            blocks.deallocate(1, 7)
            blocks.deallocate_idle(2, 7)
        pool.captures = False
        self.assertEqual(blocks.allocate(5, 7), 0x1000)
        self.assertEqual(pool.freed, [(1, 7), (2, 7)])


class Names(unittest.TestCase):
    def test_all_that_are_listed_are_there(self):
        listed = dict(inspect.getmembers(vmart))
        for name in ("alloc", "migrate", "OutOfMemory", "Policy", "__version__"):
            self.assertIn(name, listed)


class Hooks(OnAMachine):
    def test_see_each_chunk_and_may_refuse(self):
        memory = self.made()
        seen = []
        with vmart.on_move(memory, after=lambda event: seen.append((event.offset, event.moved))):
            vmart.migrate(memory, "gpu1")
        self.assertEqual(sorted(seen), [(0, True), (CHUNK, True), (2 * CHUNK, True)])

        with self.assertRaises(TypeError):
            vmart.on_move(memory, before=5)

        def refuses(event):
            raise RuntimeError("a registration is in use")

        with vmart.on_move(memory, before=refuses):
            with self.assertRaisesRegex(vmart.Error, "a registration is in use"):
                vmart.migrate(memory, "gpu0")
        self.assertEqual(self.places(memory), ["gpu(1)"])
        vmart.migrate(memory, "gpu0")

    def test_exported_memory_waits_for_its_hook(self):
        memory = self.made()
        vmart.note_export(memory)
        with self.assertRaises(vmart.Pinned):
            vmart.migrate(memory, "gpu1")
        with vmart.on_move(memory, lambda event: None):
            vmart.migrate(memory, "gpu1")


class Counters(unittest.TestCase):
    def test_have_the_names_that_the_socket_answers(self):
        script = """
import json, socket, sys, vmart
vmart.open_runtime(driver="sim:h200x2", policy="counter", control=sys.argv[1])
vmart.step_scheduler()
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
peer.sendall(b'{"command": "stats"}\\n')
answer = json.loads(peer.makefile().readline())["ok"]
stats = vmart.stats()
for named, own in (
    (answer["runtime"], stats),
    (answer["scheduler"], vmart.scheduler_stats()),
    (answer["runtime"]["places"][0], stats.places[0]),
):
    assert named
    for name in named:
        getattr(own, name)
assert vmart.scheduler_stats().tick_time > 0
assert (stats.stall.count, stats.stall.p99) == (0, 0)
"""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-c", script, folder + "/control"],
                                  capture_output=True, text=True, timeout=120)  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
