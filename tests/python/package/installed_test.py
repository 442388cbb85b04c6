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
sys.path.insert(0, f"{SOURCE}/tests/install")
from search_paths import ENTRIES, wrong_entries


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
        library = self.folder / "vmart/lib/libvmart-run.so"
        if not library.exists():
            self.skipTest("built without CUDA")
        for options, loaded in (([], library), (["--way", "shim"], library.with_name("libvmart-shim.so"))):
            script = (f"import sys; sys.argv = ['vmart', 'run', *{options}, '--', 'cat', '/proc/self/maps']\n"
                      "from vmart.tools import vmart; vmart()")  # fmt: skip
            self.assertTrue(loaded.exists(), loaded)
            if not options:
                self.assertIn(str(loaded), self.run_python(script))

    def test_no_object_searches_the_working_directory(self):
        objects, wrong = wrong_entries(self.folder)
        self.assertGreaterEqual(objects, 2)  # The extension and the library.
        self.assertEqual(wrong, [])
        self.assertEqual(ENTRIES.findall(" (RUNPATH) Library runpath: [::::::]"), ["::::::"])

    def test_a_policy_in_cpp_is_built_against_it_and_loaded(self):
        source = pathlib.Path(SOURCE) / "tests/unit/scheduling/policy_libraries/good.cpp"
        printed = self.run_python("import vmart; print(vmart.get_include(), vmart.get_library_dir())")
        include, folder = printed.split()
        self.assertEqual((include, folder), (str(self.folder / "vmart/include"), str(self.folder / "vmart/lib")))
        own = tempfile.TemporaryDirectory()
        self.addCleanup(own.cleanup)
        library = pathlib.Path(own.name) / "follow.so"
        for linked in ([f"-L{folder}", "-Wl,--no-undefined", f"-Wl,-rpath,{folder}", "-lvmart"], []):
            subprocess.run(["c++", "-std=c++20", "-shared", "-fPIC", source, f"-I{include}", *linked,
                            "-o", library], check=True)  # fmt: skip
            printed = self.run_python(
                f"import vmart; vmart.open_runtime(driver='sim:h200x2', policy='follow@{library}:uses=3')\n"
                "maps = open('/proc/self/maps').read().splitlines()\n"
                "print(vmart.policy(), sum('libvmart.so' in line and 'r-xp' in line for line in maps))\n"
            )
            self.assertEqual(printed, f"follow@{library}:uses=3 1\n")

    def test_the_lab_replays_in_the_process(self):
        if not (self.folder / "vmart/_lab.pyi").exists():
            self.skipTest("built without the lab")
        printed = self.run_python(
            "import sys, vmart, vmart.lab\n"
            "loaded = [name for name in sys.modules if name in ('vmart._core', 'vmart._lab', 'pandas', 'numpy')]\n"
            "trace = vmart.lab.generate('pipeline', iterations=2)\n"
            "print(loaded, vmart.lab.replay(trace, policy='auto', machine='h200x4').seconds > 0)\n"
        )
        self.assertEqual(printed, "[] True\n")
        self.assertIn("class ReplaySetting", (self.folder / "vmart/_lab.pyi").read_text())

    def test_types_are_known(self):
        stub = (self.folder / "vmart/_core.pyi").read_text()
        for name in ("class Allocation", "class Place", "def migrate(", "class MigrationReport"):
            self.assertIn(name, stub)
        self.assertNotIn("std::", stub, "a type of C++ that Python cannot get")
        self.assertTrue((self.folder / "vmart/py.typed").exists())

    def test_the_headers_are_there(self):
        self.assertTrue((self.folder / "vmart/include/vma/vma.hpp").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
