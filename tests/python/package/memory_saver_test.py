#!/usr/bin/env python3
"""vmart.torch.memory_saver on a simulated machine, with the pools of fake_cuda.py: regions and tags,
what pause frees and resume brings back, and that both undo what they did when they fail."""

import concurrent.futures
import ctypes
import gc
import os
import unittest
from unittest import mock

import fake_cuda
from fake_cuda import MIB, tensor
from machine_case import OnAMachine

import torch
import vmart
from vmart.torch.memory_saver import TorchMemorySaver, configure_subprocess
from vmart.torch.parking import Stayed

fake_cuda.install()
saver = TorchMemorySaver()


def library():
    found = ctypes.CDLL(vmart._core.library_path())
    for call in (found.vmart_read, found.vmart_write):
        call.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    return found


def fill(made, byte):
    assert library().vmart_write(made.data_ptr(), bytes([byte]) * made.nbytes, made.nbytes) == 0


def first_and_last(made):
    out = ctypes.create_string_buffer(made.nbytes)
    assert library().vmart_read(made.data_ptr(), out, made.nbytes) == 0
    return out.raw[0], out.raw[-1]


class MemorySaver(OnAMachine):
    @classmethod
    def options(cls):
        return {"cache_bytes_per_gpu": 0}

    def setUp(self):
        self.addCleanup(self.forget)

    def forget(self):
        gc.collect()
        vmart.torch.release()
        left = [info.tag for info in vmart.allocations()]
        self.assertEqual(left, [], "memory is left behind")
        self.assertEqual(vmart.stats().leaked, 0)

    def region(self, tag="weights", backup=True, nbytes=12 * MIB, device=0):
        with torch.cuda.device(device), saver.region(tag, enable_cpu_backup=backup):
            made = tensor(nbytes)
        fill(made, len(tag))
        return made

    def test_pause_frees_hbm_and_resume_brings_the_bytes_back_to_the_same_address(self):
        made = self.region()
        address = made.data_ptr()
        paused = saver.pause("weights")
        self.assertEqual(paused, (12 * MIB, 12 * MIB, 0))
        self.assertEqual(self.places(made), ["host(0)"])
        resumed = saver.resume("weights")
        self.assertEqual(resumed, (12 * MIB, 0, 0, 0))
        self.assertEqual(self.places(made), ["gpu(0)"])
        self.assertEqual((made.data_ptr(), first_and_last(made)), (address, (7, 7)))

    def test_without_a_backup_nothing_goes_to_the_host_and_no_bytes_come_back(self):
        made = self.region("cache", backup=False)
        self.assertEqual(saver.pause("cache"), (12 * MIB, 0, 0))
        self.assertTrue(vmart.where(made)[0].dropped)
        self.assertEqual(saver.resume("cache"), (12 * MIB, 12 * MIB, 0, 0))
        fill(made, 9)
        self.assertEqual(first_and_last(made), (9, 9))

    def test_what_has_no_backup_has_the_largest_chunks(self):
        made = self.region("cache", backup=False, nbytes=2 * MIB), self.region("weights", nbytes=2 * MIB)
        cache, weights = (vmart.allocation(one.data_ptr()) for one in made)
        self.assertGreater(cache.chunk_bytes, weights.chunk_bytes)

    def test_tags_are_separate_and_none_means_all(self):
        weights, cache = self.region("weights"), self.region("cache", backup=False)
        paused = saver.pause("weights")
        self.assertEqual(paused.residue_bytes, 12 * MIB)
        self.assertEqual(self.places(cache), ["gpu(0)"])
        saver.pause()
        saver.pause()  # What is paused stays so.
        saver.resume("cache")
        self.assertEqual(self.places([weights, cache]), ["host(0)", "gpu(0)"])
        saver.resume()
        self.assertEqual(first_and_last(weights), (7, 7))
        self.assertEqual(saver.resume(), (0, 0, 0, 0))
        self.assertEqual(saver.pause("nobody"), (0, 0, 24 * MIB))

    def test_a_failed_pause_leaves_paused_what_was_paused(self):
        first, second = self.region("a"), self.region("b")
        saver.pause("a")
        with vmart.pin(second), self.assertRaises(vmart.Error):
            saver.pause()
        self.assertEqual(self.places([first, second]), ["host(0)", "gpu(0)"])
        saver.resume()

    def test_any_exception_undoes_a_pause(self):
        first, second = self.region("a"), self.region("b")
        last = max(info.tag for info in vmart.allocations())
        park = vmart.moving.park

        def interrupted(tag, **options):
            if tag == last:
                raise KeyboardInterrupt
            return park(tag, **options)

        with mock.patch.object(vmart.moving, "park", interrupted):
            with self.assertRaises(KeyboardInterrupt):
                saver.pause()
        self.assertEqual(self.places([first, second]), ["gpu(0)", "gpu(0)"])

    def test_the_setting_goes_before_the_environment(self):
        with mock.patch.dict(os.environ, {"TMS_RETAIN_CPU_BACKUP": "1"}):
            fresh = TorchMemorySaver()
            self.assertTrue(fresh.retain_cpu_backup)
            fresh.retain_cpu_backup = False
            self.assertFalse(fresh.retain_cpu_backup)

    def test_one_tag_may_have_parts_with_and_without_a_backup(self):
        kept, dropped = self.region("both"), self.region("both", backup=False)
        self.assertEqual(saver.pause("both"), (24 * MIB, 12 * MIB, 0))
        saver.resume("both")
        self.assertEqual((first_and_last(kept), first_and_last(dropped)), ((4, 4), (0, 0)))

    def test_regions_nest_and_disable_leaves_them(self):
        with saver.region("outer", enable_cpu_backup=True):
            with saver.region("inner"):
                inner = tensor(12 * MIB)
            with saver.disable():
                self.assertIsNone(fake_cuda.WORLD.stack()[-1].allocator)
                with saver.region("outer", enable_cpu_backup=True):
                    self.assertIsNotNone(fake_cuda.WORLD.stack()[-1].allocator)
            outer = tensor(12 * MIB)
        saver.pause("inner")
        self.assertTrue(vmart.where(inner)[0].dropped)
        self.assertEqual(self.places(outer), ["gpu(0)"])
        saver.resume()
        with self.assertRaises(vmart.InvalidArgument), saver.disable():
            self.fail("entered")

    def test_the_current_region_is_the_innermost_one_of_the_thread(self):
        self.assertIsNone(saver.current_region)
        with saver.region("outer", enable_cpu_backup=True, cpu_backup_backend="mmap"):
            with saver.region("inner"):
                self.assertEqual(saver.current_region, ("inner", False, "mmap"))
            with saver.disable():
                self.assertIsNone(saver.current_region)
            with concurrent.futures.ThreadPoolExecutor() as other:
                self.assertIsNone(other.submit(lambda: saver.current_region).result())
            self.assertEqual(saver.current_region, ("outer", True, "mmap"))
        self.assertIsNone(saver.current_region)

    def test_the_environment_names_the_backend_of_regions_that_name_none(self):
        with mock.patch.dict(os.environ, {"TMS_INIT_CPU_BACKUP_BACKEND": "mmap"}):
            with saver.region(enable_cpu_backup=True):
                self.assertEqual(saver.current_region.cpu_backup_backend, "mmap")
        with saver.region(enable_cpu_backup=True):
            self.assertEqual(saver.current_region.cpu_backup_backend, "pinned")
        with mock.patch.dict(os.environ, {"TMS_INIT_CPU_BACKUP_BACKEND": "tape"}):
            with self.assertRaisesRegex(vmart.InvalidArgument, "TMS_INIT_CPU_BACKUP_BACKEND is 'tape'"):
                TorchMemorySaver()._ensure_initialized()

    def test_memory_of_a_graph_can_be_paused(self):
        graph = torch.cuda.CUDAGraph()
        with saver.cuda_graph(graph, tag="graph", enable_cpu_backup=True):
            made = tensor(12 * MIB)
        self.assertEqual(saver.pause("graph").freed_bytes, 12 * MIB)
        saver.resume()
        self.assertEqual(self.places(made), ["gpu(0)"])
        with self.assertRaises(vmart.Unsupported), saver.cuda_graph(graph, pool=(0, 1)):
            self.fail("entered")

    def test_freed_while_paused(self):
        made = self.region()
        saver.pause()
        del made
        self.forget()
        self.assertEqual(saver.resume(), (0, 0, 0, 0))

    def test_a_pause_that_fails_brings_everything_back(self):
        one, two, cache = self.region("one"), self.region("two"), self.region("cache", backup=False)
        with vmart.pin(two), self.assertRaisesRegex(vmart.Error, '"two" could not pause.*pinned') as caught:
            saver.pause()
        self.assertEqual([stayed.pointer for stayed in caught.exception.report.stayed], [two.data_ptr()])
        self.assertEqual(self.places([one, two, cache]), ["gpu(0)"] * 3)
        for made, byte in ((one, 3), (two, 3), (cache, 5)):  # Dropping comes last.
            self.assertEqual(first_and_last(made), (byte, byte))
        saver.pause()
        saver.resume()

    def test_a_failure_is_a_lack_of_memory_if_nothing_else_is_missing(self):
        one = self.region("one")
        full, other = "vma::migrate: out_of_memory: 1 byte at host(0)", "vma::migrate: busy: out_of_memory: no"
        for reasons, expected in (((full, full), vmart.OutOfMemory), ((full, other), vmart.Error), ((other,), vmart.Error)):
            stayed = [Stayed(one.data_ptr(), MIB, reason) for reason in reasons]
            with mock.patch.object(vmart.moving, "park", return_value=mock.Mock(stayed=stayed)):
                with self.assertRaises(vmart.Error) as caught:
                    saver.pause()
            self.assertIs(type(caught.exception), expected)
            self.assertEqual(caught.exception.report, (stayed, [], 0))

    def test_a_failed_resume_drops_nothing_that_was_awake(self):
        asleep = self.region("a", backup=False)
        saver.pause()
        new, large = self.region("a", backup=False), self.region("b", backup=False, nbytes=62 * MIB)
        saver.pause("b")
        for place, nbytes in (("gpu0", 40 * MIB), ("gpu1", 0)):
            vmart.set_capacity(place, nbytes)
            self.addCleanup(vmart.set_capacity, place, 1 << 37)
        with self.assertRaisesRegex(vmart.OutOfMemory, '"b" could not resume.*What it had done is undone'):
            saver.resume()
        self.assertEqual([vmart.where(made)[0].dropped for made in (asleep, new, large)], [True, False, True])
        self.assertEqual((self.places(new), first_and_last(new)), (["gpu(0)"], (1, 1)))
        vmart.set_capacity("gpu0", 1 << 37)
        saver.resume()

    def test_a_pause_that_the_host_has_no_room_for_brings_everything_back(self):
        vmart.trim("host0")
        one, two = self.region("one"), self.region("two", nbytes=30 * MIB)
        vmart.set_capacity("host0", 20 * MIB)
        self.addCleanup(vmart.set_capacity, "host0", 1 << 40)
        with self.assertRaisesRegex(vmart.OutOfMemory, '"two" could not pause'):
            saver.pause()
        self.assertEqual(self.places([one, two]), ["gpu(0)"] * 2)
        self.assertEqual((first_and_last(one), first_and_last(two)), ((3, 3), (3, 3)))
        self.assertEqual(saver.pause("one").host_bytes, 12 * MIB)
        saver.resume()

    def test_a_resume_without_room_pauses_everything_again(self):
        first = self.region("a", device=1, nbytes=30 * MIB)
        second = self.region("b", device=1, nbytes=62 * MIB)
        saver.pause()
        for place, nbytes in (("gpu0", 0), ("gpu1", 64 * MIB)):  # Otherwise the rest goes to GPU 0.
            vmart.set_capacity(place, nbytes)
            self.addCleanup(vmart.set_capacity, place, 1 << 37)
        with self.assertRaisesRegex(vmart.OutOfMemory, '"b" could not resume'):
            saver.resume()
        self.assertEqual(self.places([first, second]), ["host(0)"] * 2)
        vmart.set_capacity("gpu1", 1 << 37)
        saver.resume()
        self.assertEqual(self.places([first, second]), ["gpu(1)"] * 2)
        self.assertEqual((first_and_last(first), first_and_last(second)), ((1, 1), (1, 1)))

    def test_what_the_program_put_at_the_host_stays_there_and_is_reported(self):
        stays, returns = (self.region("pair") for _ in range(2))
        vmart.migrate(stays, "host0")
        self.assertEqual(saver.pause("pair").host_bytes, 12 * MIB)
        self.assertEqual(saver.resume("pair"), (12 * MIB, 0, 0, 12 * MIB))
        self.assertEqual(self.places([stays, returns]), ["host(0)", "gpu(0)"])

    def test_backups_can_be_read_while_they_are(self):
        made = self.region()
        self.assertIsNone(saver.get_cpu_backup(made))
        saver.pause()
        copied = saver.get_cpu_backup(made[: 3 * MIB].view(torch.int16))
        self.assertEqual((copied.dtype, copied.numel(), int(copied[-1])), (torch.int16, 3 * MIB // 2, 0x0707))
        with self.assertRaises(vmart.Unsupported):
            saver.get_cpu_backup(made, zero_copy=True)
        with self.assertRaisesRegex(vmart.InvalidArgument, "contiguous"):
            saver.get_cpu_backup(made[::2])
        saver.resume()
        self.assertEqual(int(copied[0]), 0x0707)
        self.assertIsNone(saver.get_cpu_backup(made))
        cache = self.region("cache", backup=False)
        saver.pause("cache")
        self.assertIsNone(saver.get_cpu_backup(cache))
        saver.resume()

    def test_retained_backups_are_refreshed(self):
        made = self.region()
        retaining = TorchMemorySaver()
        retaining.retain_cpu_backup = True
        for byte in (7, 9):
            fill(made, byte)
            retaining.pause()
            retaining.resume()
            self.assertEqual(first_and_last(made), (byte, byte))
            self.assertIsNone(retaining.get_cpu_backup(made))

    def test_the_environment_opens_a_region_that_never_ends(self):
        started = TorchMemorySaver()
        with mock.patch.dict(os.environ, {"TMS_INIT_ENABLE": "1", "TMS_INIT_ENABLE_CPU_BACKUP": "1"}):
            started.hook_mode = "torch"
            self.assertIsNone(started.current_region)
            started.hook_mode = "preload"
        self.addCleanup(started._started.close)
        self.assertEqual(started.current_region, ("default", True, "pinned"))
        made = tensor(12 * MIB)
        with started.region("nested"):
            nested = tensor(12 * MIB)
        started.pause("default")
        self.assertEqual(self.places([made, nested]), ["host(0)", "gpu(0)"])
        started.resume()

    def test_settings_and_what_is_not_supported(self):
        self.assertTrue(saver.enabled)
        saver.hook_mode = "preload"
        saver.memory_margin_bytes = 0
        with configure_subprocess():
            self.assertNotIn("vmart", os.environ.get("LD_PRELOAD", ""))

        def enter(**options):
            with saver.region(**options):
                self.fail("entered")

        def margin():
            saver.memory_margin_bytes = 1

        for call, error in (
            (lambda: enter(enable_disk_backup=True), vmart.Unsupported),
            (lambda: enter(cpu_backup_backend="mmap"), ValueError),
            (lambda: enter(enable_cpu_backup=True, cpu_backup_backend="tape"), ValueError),
            (lambda: saver.set_disk_backup_dir("x"), vmart.Unsupported),
            (margin, vmart.Unsupported),
            (lambda: setattr(saver, "hook_mode", "x"), vmart.InvalidArgument),
        ):
            with self.assertRaises(error):
                call()
        with mock.patch.dict(os.environ, {"TMS_INIT_ENABLE": "maybe"}):
            with self.assertRaisesRegex(vmart.InvalidArgument, "TMS_INIT_ENABLE is 'maybe'"):
                TorchMemorySaver()._ensure_initialized()
        with saver.region(enable_cpu_backup=True, cpu_backup_backend="mmap"):
            pass


if __name__ == "__main__":
    unittest.main()
