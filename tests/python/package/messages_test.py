#!/usr/bin/env python3
"""Wrong calls: each message names the argument, its value and what it may be, in Python's words; and what
`repr` says."""

import importlib.util
import pathlib
import re
import sys
import unittest
import unittest.mock

from machine_case import CHUNK, OnAMachine

import vmart
from vmart import errors

SOURCE = pathlib.Path(__file__).resolve().parents[3]
CPP = re.compile(r"::|incompatible function arguments|nanobind")


class WrongCalls(OnAMachine):
    def refused(self, kind, pattern, call):
        with self.assertRaisesRegex(kind, pattern) as caught:
            call()
        self.assertNotRegex(str(caught.exception), CPP)
        self.assertNotRegex(repr(caught.exception), CPP)

    def test_sizes(self):
        size = 'an int, or a text such as "64MiB"'
        for nbytes, kind, pattern in (
            (-1, vmart.InvalidArgument, "vmart.alloc: nbytes is -1; it may be at least 1 bytes"),
            (0, vmart.InvalidArgument, "nbytes is 0; it may be at least 1"),
            (1e6, TypeError, f"vmart.alloc: nbytes is 1000000.0, a float; it may be {size}"),
            (None, TypeError, f"nbytes is None, a NoneType; it may be {size}"),
            (2**64, vmart.InvalidArgument, "nbytes is 18446744073709551616; it may be at most"),
            ("64MX", vmart.InvalidArgument, 'nbytes is "64MX"; write a number of bytes, or one with a unit'),
            ("1.3", vmart.InvalidArgument, "which is no whole number of bytes"),
            ("900GiB", vmart.OutOfMemory, "GiB"),
        ):
            self.refused(kind, pattern, lambda: vmart.alloc(nbytes, "gpu0"))
        self.refused(TypeError, "vmart.alloc: chunk_bytes is 1.5", lambda: vmart.alloc(1, "gpu0", chunk_bytes=1.5))
        self.refused(vmart.InvalidArgument, "vmart.set_capacity: nbytes is \"much\"",
                     lambda: vmart.set_capacity("gpu0", "much"))  # fmt: skip
        self.refused(vmart.InvalidArgument, "at least 0", lambda: vmart.reserve("gpu0", "1MiB", -1))
        self.refused(vmart.InvalidArgument, 'capacity of gpu0 is "20 apples"',
                     lambda: vmart.open_runtime(capacity={"gpu0": "20 apples"}))  # fmt: skip

    def test_sizes_have_units_everywhere(self):
        for text, nbytes in (("64MiB", 64 << 20), ("1.5 GiB", 3 << 29), ("2g", 2 << 30), ("4096", 4096), ("8KB", 8192)):
            self.assertEqual(vmart.arguments.size(text, "nbytes", "test"), nbytes)
        memory = vmart.alloc("4MiB", "gpu0", chunk_bytes="2MiB")
        self.assertEqual(memory.nbytes, 4 << 20)
        memory.write(b"x", "1MiB")
        for asked, chunk in ((1000, "2MiB"), (3 << 20, "4MiB"), ("5MiB", "6MiB")):  # In whole steps of 2 MiB.
            other = vmart.alloc("32MiB", "gpu0", chunk_bytes=asked, tag="steps")
            (info,) = [info for info in vmart.allocations() if info.tag == "steps"]
            self.assertEqual(info.chunk_bytes, vmart.arguments.size(chunk, "chunk", "test"))
            other.free()
        vmart.set_capacity("gpu0", "20GiB")
        self.assertEqual(vmart.stats().places[0].capacity_bytes, 20 << 30)
        vmart.set_capacity("gpu0", None)
        self.assertGreater(vmart.stats().places[0].capacity_bytes, 100 << 30)
        vmart.reserve("gpu1", "4MiB")
        pool = vmart.make_pool("gpu1", max_bytes="1GiB")
        pool.trim("1MiB")
        pool.destroy()

    def test_places(self):
        for place in ("gpu0", "gpu:0", "gpu(0)", "GPU0", "cuda:0", "cuda", vmart.gpu(0)):
            self.assertEqual(vmart.as_place(place), vmart.gpu(0))
        for place in ("host0", "host:0", "host(0)", "cpu"):
            self.assertEqual(vmart.as_place(place), vmart.host(0))
        self.refused(vmart.InvalidArgument, '"moon" is not a place; write gpu0', lambda: vmart.alloc(1, "moon"))
        self.refused(TypeError, "5, a int, is no place", lambda: vmart.alloc(1, 5))
        self.refused(vmart.InvalidArgument, "vmart.gpu: ordinal is -1; it may be at least 0", lambda: vmart.gpu(-1))
        self.refused(TypeError, "vmart.gpu: ordinal is 'one'", lambda: vmart.gpu("one"))
        self.refused(TypeError, "node is 0.5", lambda: vmart.host(0.5))

    def test_options(self):
        memory = self.made()
        for pattern, kind, call in (
            (r"migrate\(\) has no option 'modes'; did you mean 'mode'\?", TypeError,
             lambda: vmart.migrate(memory, "gpu1", modes="live")),
            ("deadline is '1s', a str; it may be a number of seconds", TypeError,
             lambda: vmart.migrate(memory, "gpu1", deadline="1s")),
            ("deadline is -1 s; it may be from 0 s to a year", vmart.InvalidArgument,
             lambda: vmart.migrate(memory, "gpu1", deadline=-1)),
            ('mode is "fast"; it may be "automatic", "live" or "stopped"', vmart.InvalidArgument,
             lambda: vmart.migrate_async(memory, "gpu1", mode="fast")),
            ('scope is "all"; it may be "attached" or "hold"', vmart.InvalidArgument,
             lambda: vmart.migrate(memory, "gpu1", scope="all")),
            ("copy_share_percent is 200; it may be at most 100", vmart.InvalidArgument,
             lambda: vmart.migrate(memory, "gpu1", copy_share_percent=200)),
            ("reserve_first is 'yes'", TypeError, lambda: vmart.migrate(memory, "gpu1", reserve_first="yes")),
            ("on_progress is 5, which cannot be called", TypeError,
             lambda: vmart.migrate(memory, "gpu1", on_progress=5)),
            (r"make_pool\(\) has no option 'max'; did you mean 'max_bytes'\?", TypeError,
             lambda: vmart.make_pool("gpu0", max=3)),
            (r"open_runtime\(\) has no option 'polices'", TypeError, lambda: vmart.open_runtime(polices=[])),
            ("tick is 'often'", TypeError, lambda: vmart.open_runtime(tick="often")),
            ("tag is 5, a int; it may be a str", TypeError, lambda: vmart.park(5)),
            ('device is "host0"|device is \'host0\'', vmart.InvalidArgument,
             lambda: vmart.record_use(memory, "host0")),
            ('kind is "reed"', vmart.InvalidArgument, lambda: vmart.record_use(memory, "gpu0", "reed")),
            ("stream is -1", vmart.InvalidArgument, lambda: vmart.synchronize(-1)),
            ('"views"; it may be "view" or "fault"', vmart.InvalidArgument,
             lambda: vmart.alloc(1, "gpu0", cpu_access="views")),
            ("shape is 'big'; it may be an int or a tuple of ints", TypeError, lambda: vmart.empty("big")),
            ("dtype is 'floot32'; did you mean 'float32'", vmart.InvalidArgument,
             lambda: vmart.empty(2, "floot32", at="gpu0")),
        ):  # fmt: skip
            self.refused(kind, pattern, call)
        self.assertEqual(self.places(memory), ["gpu(0)"])

    def test_methods(self):
        memory, pool = self.made(), vmart.make_pool("gpu0")
        self.addCleanup(pool.destroy)
        self.refused(TypeError, "vmart.Pool.allocate: nbytes is 1.5", lambda: pool.allocate(1.5, 0))
        self.refused(TypeError, "vmart.Pool.allocate: stream is 'main'", lambda: pool.allocate(1, "main"))
        self.refused(vmart.InvalidArgument, "pointer is -5", lambda: pool.deallocate(-5, 0))
        self.refused(TypeError, "keep_bytes is None", lambda: pool.trim(None))
        self.refused(vmart.InvalidArgument, "vmart.Allocation.write: offset is -1", lambda: memory.write(b"x", -1))
        self.refused(TypeError, "offset is 0.5", lambda: memory.read_into(bytearray(1), 0.5))
        self.refused(vmart.InvalidArgument, "are not within", lambda: memory.write(b"x", memory.nbytes))

    def test_of_the_library_are_told_in_pythons_words(self):
        memory = self.made()
        self.refused(vmart.Unsupported, "set exportable", lambda: vmart.export_allocation(memory))
        with vmart.pin(memory):
            self.refused(vmart.Pinned, "error.report|pinned", lambda: vmart.migrate(memory, "gpu1"))
            self.refused(vmart.Pinned, "vmart.migrate_async", lambda: vmart.migrate_async(memory, "gpu1").wait(60))
        self.refused(vmart.OutOfMemory, "GiB", lambda: vmart.alloc("2TiB", "gpu0"))

    def test_what_is_missing_is_named(self):
        self.refused(vmart.InvalidArgument, "vmart.attach: this thread has used no GPU yet.*cupy.zeros", vmart.attach)
        array = vmart.empty(4, at="host0")
        hidden = unittest.mock.patch.dict(sys.modules, {"numpy": None, "ml_dtypes": None})
        with hidden:
            for wanted in (lambda: array.dtype, array.numpy, lambda: array[0]):
                self.refused(ModuleNotFoundError, "arrays of float32 on the CPU need numpy: pip install numpy", wanted)
            self.assertIn("float32", repr(array))

    def test_no_text_of_the_sources_would_show_cpp(self):
        """Literals with a name of C++, as a user of Python would read them."""
        literal = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
        name = re.compile(r"\b(?:vma|[A-Z]\w+)::")
        seen = 0
        for path in sorted((SOURCE / "runtime").rglob("*.cpp")):
            if path.relative_to(SOURCE / "runtime").parts[0] in ("tools", "lab", "interpose"):
                continue
            for line in path.read_text(encoding="utf-8").splitlines():
                for text in literal.findall(line.partition("//")[0]):
                    if name.search(text):
                        seen += 1
                        self.assertNotIn("::", errors.in_python(text), path)
        self.assertGreater(seen, 50)

    def test_what_texts_of_the_sources_name_in_python_exists(self):
        named = re.compile(r"(?<![\w.\-/<])vmart\.(?!vmart_)([A-Za-z_]\w*)")
        found = {}
        for folder, pattern in (("runtime", "*.cpp"), ("runtime/python/vmart", "*.py")):
            for path in sorted((SOURCE / folder).rglob(pattern)):
                for name in named.findall(path.read_text(encoding="utf-8")):
                    found.setdefault(name, path)
        wrong = {name: path for name, path in found.items()
                 if importlib.util.find_spec(f"vmart.{name}") is None and not hasattr(vmart, name)}  # fmt: skip
        self.assertEqual(wrong, {})
        self.assertGreater(len(found), 50)


class Shown(OnAMachine):
    def test_each_object_says_what_it_is(self):
        stream = self.attached()
        memory = vmart.alloc("64MiB", "gpu0", tag="shown")
        report = vmart.migrate(memory, "gpu1")
        migration = vmart.migrate_async(memory, "gpu0")
        migration.wait(60)
        pool = vmart.make_pool("gpu0")
        self.addCleanup(pool.destroy)
        for shown, pattern in (
            (memory, r"<vmart.Allocation of 64 MiB, at gpu0, address 0x[0-9a-f]+>"),
            (vmart.empty((2, 3), "bfloat16", at="gpu1"), r"<vmart.Array of shape \(2, 3\), bfloat16, at gpu1,"),
            (vmart.stats(), r"<vmart.Stats places=\[<vmart.PlaceStats at=gpu0, .*allocations=\d+"),
            (vmart.stats().places[2], r"<vmart.PlaceStats at=host0, capacity_bytes=.*iB"),
            (vmart.scheduler_stats(), r"<vmart.SchedulerStats running="),
            (vmart.allocations()[0], r"<vmart.AllocationInfo pointer=0x[0-9a-f]+, nbytes=\d+ .?i?B"),
            (vmart.where(memory)[0], r"<vmart.Extent of 67108864 bytes at offset 0, gpu\(0\)>"),
            (report, r"<vmart.Report: done, 64 MiB of 64 MiB moved, .* ms, longest stall"),
            (report.total, r"<vmart.MigrationReport outcome='done'.*bytes_moved=64 MiB"),
            (report.requests[0], r"<vmart.RequestReport report=<vmart.MigrationReport"),
            (migration, r"<vmart.Migration: done, 64 MiB of 64 MiB moved>"),
            (pool, r"<vmart.Pool: 0 B used of 0 B reserved>"),
            (pool.stats(), r"<vmart.PoolStats reserved_bytes=0 B"),
            (vmart.park("shown"), r"<vmart.ParkReport allocations=1, bytes_moved=64 MiB.*wall="),
            (vmart.resume("shown"), r"<vmart.ParkReport"),
        ):
            self.assertRegex(repr(shown), pattern)
        with vmart.pin(memory) as guards:
            self.assertEqual(repr(guards), "<vmart.Guards: holding 1>")
        self.assertEqual(repr(guards), "<vmart.Guards: released>")
        events = []
        with vmart.on_move(memory, after=lambda event: events.append(repr(event))):
            vmart.migrate(memory, "gpu1")
        self.assertRegex(events[0], r"<vmart.MoveEvent pointer=0x.*source=gpu0, target=gpu1")
        memory.free()
        self.assertEqual(repr(memory), "<vmart.Allocation of 64 MiB, freed>")
        vmart.synchronize(stream)


if __name__ == "__main__":
    unittest.main()
