"""docs/guide/simcuda.md as typed, with an installed vmart.
simcuda_test.py --build DIR --cuda FOLDER-OF-CUDA.H"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from toolchains_test import BLOCK

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guide" / "simcuda.md"
TYPED = "not run: needs cuda.h; tests/install runs it as typed"
PROJECT = "not run: tests/install builds it in project"
arguments = None


def succeed(*command, cwd, **changes):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("VMART_", "SIMCUDA_", "LD_"))}
    done = subprocess.run(command, cwd=cwd, env={**environment, **changes}, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}\n{done.stdout}")
    return done.stdout


class Guide(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        prefix = tempfile.TemporaryDirectory(prefix="vmart-simcuda-")
        cls.addClassCleanup(prefix.cleanup)
        succeed("cmake", "--install", arguments.build, "--prefix", prefix.name, cwd="/")
        cls.prefix = pathlib.Path(prefix.name).rename(prefix.name + "-moved")  # It remembers no path.
        cls.addClassCleanup(lambda: cls.prefix.rename(prefix.name))
        cls.environment = {"PATH": f"{cls.prefix}/bin:{os.environ['PATH']}", "CPATH": arguments.cuda,
                           "PKG_CONFIG_PATH": str(next(cls.prefix.rglob("vmart.pc")).parent), "VMART_CONTROL": "0"}

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="vmart simcuda ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.blocks = BLOCK.findall(PAGE.read_text())
        for mark, _, text in self.blocks:
            if mark.startswith("file: "):
                (self.folder / mark.removeprefix("file: ")).write_text(text)
            elif mark == PROJECT:
                (self.folder / "CMakeLists.txt").write_text(text)

    def run_page(self):
        """Runs its commands; what each prints is what the page shows behind it."""
        shown = [(language, text) for mark, language, text in self.blocks if mark in ("", TYPED)]
        ran = 0
        for (language, text), (next_language, expected) in zip(shown, shown[1:]):
            if (language, next_language) == ("sh", "text"):
                self.assertEqual(succeed("bash", "-euc", text, cwd=self.folder, **self.environment), expected)
                ran += 1
        self.assertEqual(ran, 2)

    def test_runs_as_typed(self):
        self.run_page()

    def test_machines_are_found_by_name(self):
        self.run_page()
        command = "vmart simulate --machine {} --kernels kernels.so -- ./double"
        self.assertEqual(succeed("bash", "-c", command.format("h200x8"), cwd=self.folder, **self.environment),
                         "the last one is 2046\n")
        with self.assertRaisesRegex(AssertionError, "no machine file \"h999.json\""):
            succeed("bash", "-c", command.format("h999"), cwd=self.folder, **self.environment)
        with self.assertRaisesRegex(AssertionError, "line 27: CUDA_ERROR_INVALID_DEVICE"):  # It wants two GPUs.
            succeed("bash", "-c", command.format("h200x1"), cwd=self.folder, **self.environment)
        variable = "LD_LIBRARY_PATH=$(pkg-config --variable=simcudadir vmart) SIMCUDA_MACHINE=h200x2 ./double"
        with self.assertRaisesRegex(AssertionError, "simcuda: no host function for the kernel twice: name a library"):
            succeed("bash", "-c", variable, cwd=self.folder, **self.environment)

    def test_libraries_without_kernels_are_refused_by_name(self):
        self.run_page()
        (self.folder / "empty.c").write_text("int nothing;\n")
        for name, message in (("absent.so", "--kernels absent.so: No such file or directory"),
                              ("empty.so", "empty.so exports no kernels; see SIMCUDA_EXPORT_KERNELS"),
                              ("double.c", "double.c: invalid ELF header")):
            with self.subTest(name=name), self.assertRaisesRegex(AssertionError, re.escape(message)):
                succeed("bash", "-euc", "gcc -shared -fPIC empty.c -o empty.so; "
                        f"vmart simulate --kernels {name} -- ./double", cwd=self.folder, **self.environment)
        with self.assertRaisesRegex(AssertionError, "the runtime or another library has a kernel twice, too"):
            succeed("bash", "-euc", "cp kernels.so again.so; "
                    "vmart simulate --kernels kernels.so --kernels again.so -- ./double", cwd=self.folder, **self.environment)

    def test_accesses_that_a_gpu_refuses_are_errors(self):
        text = (self.folder / "kernels.cpp").read_text()
        (self.folder / "kernels.cpp").write_text(text.replace("&numbers[i], 2", "&numbers[i + (1 << 30)], 2"))
        with self.assertRaisesRegex(AssertionError, "line 35: CUDA_ERROR_ILLEGAL_ADDRESS"):
            self.run_page()

    def test_is_found_by_cmake(self):
        succeed("cmake", "-G", "Ninja", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_BUILD_TYPE=Release",
                f"-DCUDA_INCLUDE_DIR={arguments.cuda}", cwd=self.folder)
        succeed("cmake", "--build", "build", cwd=self.folder)
        self.assertIn("100% tests passed", succeed("ctest", "--test-dir", "build", "-V", cwd=self.folder))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--cuda", required=True)
    arguments, rest = parser.parse_known_args()
    if missing := [name for name in ("g++", "gcc", "ninja", "pkg-config") if shutil.which(name) is None]:
        print(f"SKIPPED: {', '.join(missing)} not found")
        sys.exit(77)
    unittest.main(argv=[__file__, *rest])
