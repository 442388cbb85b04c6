#!/usr/bin/env python3
"""The package as a wheel lays it down, in a folder of its own: it finds its library, its machines and
its tools there, and types are known. Arguments: cmake, the build folder, the source folder."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

CMAKE, BUILD, SOURCE = sys.argv[1:4]


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.owner = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.owner.cleanup)
        cls.folder = pathlib.Path(cls.owner.name)
        package = cls.folder / "vmart"
        shutil.copytree(pathlib.Path(SOURCE) / "runtime/python/vmart", package)
        subprocess.run([CMAKE, "--install", BUILD, "--component", "python", "--prefix", package],
                       check=True, stdout=subprocess.DEVNULL)  # fmt: skip

    def run_python(self, script, *arguments):
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(self.folder)}
        done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True,
                              text=True, timeout=120, env=environment, cwd=self.folder)  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_it_uses_its_own_library_and_machines(self):
        printed = self.run_python(
            "import vmart\n"
            "vmart.open_runtime(driver='sim:h200x2')\n"
            "memory = vmart.alloc(1 << 21, 'gpu0')\n"
            "vmart.migrate(memory, 'gpu1')\n"
            "print(vmart.where(memory)[0].at, vmart._core.library_path(), vmart.__version__)\n"
        )
        place, library, version = printed.split()
        self.assertEqual(place, "gpu(1)")
        self.assertTrue(library.startswith(str(self.folder / "vmart/lib/libvmart.so.")), library)
        self.assertIn(f"VERSION {version} ", (pathlib.Path(SOURCE) / "CMakeLists.txt").read_text())

    def test_the_tools_start(self):
        for name in ("vmart", "vmart_lab"):
            script = f"import sys; sys.argv = ['x', '--help']; from vmart.tools import {name}; {name}()"
            self.assertIn("Usage", self.run_python(script))

    def test_programs_run_with_its_library(self):
        script = ("import sys; sys.argv = ['vmart', 'run', '--', 'cat', '/proc/self/maps']\n"
                  "from vmart.tools import vmart; vmart()")  # fmt: skip
        library = self.folder / "vmart/lib/libvmart-run.so"
        if not library.exists():
            self.skipTest("built without CUDA")
        self.assertIn(str(library), self.run_python(script))

    def test_types_are_known(self):
        stub = (self.folder / "vmart/_core.pyi").read_text()
        for name in ("class Allocation", "class Location", "def migrate(", "class MigrationReport"):
            self.assertIn(name, stub)
        self.assertTrue((self.folder / "vmart/py.typed").exists())

    def test_the_headers_are_there(self):
        self.assertTrue((self.folder / "vmart/include/vma/vma.hpp").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
