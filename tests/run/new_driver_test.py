"""Drivers that have calls which `vmart run` does not know: its library without some of its names.
new_driver_test.py VMART PROGRAM"""

import os
import pathlib
import shutil
import sys
import tempfile
import unittest

import run_test
from run_test import PROGRAM, VMART, Running, places, run

RUNTIME = VMART.parent.parent
NAMES = {"an entry point": [("cuMemsetD8Async", "cuMemsetDxAsync")],  # With all of its variants.
         "a version": [("\0cuMemsetD8Async\0", "\0cuMemsetD8Asyn~\0")]}


class Unaware:
    """`vmart`, whose libraries know names by others."""

    def __init__(self, names):
        self._folder = tempfile.TemporaryDirectory(prefix="vmart-run-")
        here = pathlib.Path(self._folder.name) / "runtime"
        (here / "tools").mkdir(parents=True)
        self.path = pathlib.Path(shutil.copy(VMART, here / "tools"))
        for library in RUNTIME.glob("libvmart.so*"):
            os.symlink(library, here / library.name)
        for library in ("libvmart-run.so", "libvmart-shim.so"):
            contents = (RUNTIME / library).read_bytes()
            for name, other in names:
                contents = contents.replace(name.encode(), other.encode())
            (here / library).write_bytes(contents)

    def __enter__(self):
        self._usual, run_test.VMART = run_test.VMART, self.path
        return self

    def __exit__(self, *_):
        run_test.VMART = self._usual
        self._folder.cleanup()


class NewDrivers(unittest.TestCase):
    def test_leave_the_program_alone_once_it_calls_them(self):
        for what, names in NAMES.items():
            for way, options in (("dlsym", ()), ("resolver", ()), ("resolver", ("--way", "shim"))):
                with self.subTest(what=what, way=way, options=options), Unaware(names) as unaware:
                    with Running(way, "stream", *options) as running:
                        expected = "vmart run: disabled in this process, so the memory of this program does not move: the " \
                                   "program calls cuMemsetD8Async, which this version of vmart does not follow\n"
                        self.assertEqual(running.errors(), expected)
                        moved = run(unaware.path, "migrate", "run", "gpu1", "--socket", running.socket)
                        self.assertNotEqual(moved.returncode, 0, moved.stdout)
                        self.assertEqual({at for one in running.where() for at in places(one)}, {"gpu(0)"})
                        self.assertEqual(running.end(), run(PROGRAM, way).stdout)

    def test_do_no_harm_before_that(self):
        with Unaware([("cuMemcpyPeerAsync", "cuMemcpyPeerAsynx")]), Running("resolver", "stream") as running:
            running.control("migrate", "run", "gpu1")
            self.assertEqual({at for one in running.where() for at in places(one)}, {"gpu(1)"})
            self.assertEqual(running.errors(), "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
