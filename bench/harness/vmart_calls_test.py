#!/usr/bin/env python3
"""vmart_calls_test.py LIBVMART.SO: the structures have the layout that the library expects, and several
allocations move with one call. On a simulated machine."""

import ctypes
import os
import pathlib
import sys
import unittest

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.vmart_calls import GPU, Library, Place, MigrateOptions, MigrationReport, move_many, report_of

MIB = 2 ** 20


class Calls(unittest.TestCase):
    def setUp(self):
        self.vmart = Library(LIBRARY)
        self.pointers = []
        for _ in range(3):
            pointer = ctypes.c_void_p()
            self.vmart.call("vmart_alloc", ctypes.c_size_t(4 * MIB), Place(GPU, 0),
                            ctypes.byref(pointer))
            self.pointers.append(pointer.value)

    def tearDown(self):
        for pointer in self.pointers:
            self.vmart.call("vmart_free", ctypes.c_void_p(pointer))

    def places(self):
        at = Place()
        places = []
        for pointer in self.pointers:
            self.vmart.call("vmart_where", ctypes.c_void_p(pointer), ctypes.byref(at))
            places.append(str(at))
        return places

    def test_several_move_with_one_stop(self):
        options = MigrateOptions(size_bytes=ctypes.sizeof(MigrateOptions), all_or_nothing=1)
        report = move_many(self.vmart, self.pointers, Place(GPU, 1), options)
        self.assertEqual(self.places(), ["gpu(1)"] * 3)
        self.assertEqual((report.bytes_moved, report.gates, report.status), (12 * MIB, 1, 0))
        self.assertEqual(report.size_bytes, ctypes.sizeof(MigrationReport))
        self.assertGreater(report.stall_max_ns, 0)
        self.assertGreaterEqual(report.wall_ns, report.stall_max_ns)

    def test_an_error_names_its_request(self):
        with self.assertRaisesRegex(RuntimeError, "request 1"):
            move_many(self.vmart, [self.pointers[0], 16], Place(GPU, 1))
        self.assertEqual(self.places(), ["gpu(0)"] * 3)

    def test_a_background_move_has_a_report(self):
        migration = ctypes.c_void_p()
        options = MigrateOptions(size_bytes=ctypes.sizeof(MigrateOptions), nothing_runs=1)
        self.vmart.call("vmart_migrate_async", ctypes.c_void_p(self.pointers[0]),
                        ctypes.c_size_t(0), ctypes.c_size_t(0), Place(GPU, 1),
                        ctypes.byref(options), ctypes.byref(migration))
        self.vmart.call("vmart_migration_wait", migration)
        self.assertEqual(report_of(self.vmart, migration).bytes_moved, 4 * MIB)
        self.vmart.library.vmart_migration_release(migration)


if __name__ == "__main__":
    LIBRARY = sys.argv.pop(1)
    os.environ["VMART_DRIVER"] = "sim:h200x2"
    unittest.main()
