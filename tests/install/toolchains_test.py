"""What compilers and versions of CMake make of vmart, as docs/guide/compile_and_link.md tells its readers.
toolchains_test.py Class --source DIR --build DIR --compiler CXX [--old-cmake PROGRAM]

The page's program is compiled and its projects are built, each in a folder of the name that its mark has."""

import argparse
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

BLOCK = re.compile(r"(?:^<!-- ([^\n]*?) -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROJECT = "not run: tests/install builds it in "
SIMULATED = {"VMART_DRIVER": "sim:h200x2"}
MOVED = "64 MiB at host(0)\n"
arguments = None


def run(*command, cwd=None, **changes):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VMART_")}
    return subprocess.run([str(part) for part in command], cwd=cwd, env={**environment, **changes}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=900)


class Page(unittest.TestCase):
    """In a folder with the page's files."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="vmart toolchains ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.commands = {}  # By the compiler.
        page = (arguments.source / "docs" / "guide" / "compile_and_link.md").read_text()
        for mark, language, text in BLOCK.findall(page):
            if language == "sh":
                self.commands[text.split()[0]] = text
            elif mark.startswith("file: "):
                (self.folder / mark.removeprefix("file: ")).write_text(text)
            elif mark.startswith(PROJECT):
                project = self.folder / mark.removeprefix(PROJECT)
                project.mkdir()
                (project / "CMakeLists.txt").write_text(text)
        for project in self.folder.glob("*/CMakeLists.txt"):
            shutil.copy(self.folder / "program.cpp", project.parent)
            shutil.copy(arguments.source / "examples" / "increment.cu", project.parent)
        shutil.copy(arguments.source / "examples" / "increment.cu", self.folder)

    def succeed(self, *command, **options):
        done = run(*command, **options)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}")
        return done.stdout

    def fail_at(self, *command, **options):
        done = run(*command, **options)
        self.assertNotEqual(done.returncode, 0, f"{command}\n{done.stdout}")
        return " ".join(done.stdout.split())

    def configure(self, project, *options, cmake="cmake"):
        self.succeed(cmake, "-G", "Ninja", "-S", self.folder / project, "-B", self.folder / project / "build",
                     f"-DCMAKE_CXX_COMPILER={arguments.compiler}", *options)

    def build(self, project, *targets, cmake="cmake"):
        return self.succeed(cmake, "--build", self.folder / project / "build", *targets)


class Headers(unittest.TestCase):
    def test_ask_older_standards_for_the_option(self):
        include = arguments.source / "include"
        headers = [*sorted((include / "vma").glob("*.hpp")), include / "simcuda" / "kernels.hpp"]
        self.assertGreater(len(headers), 15)
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "program.cpp"
            for header in headers:
                source.write_text(f"#include <{header.relative_to(include)}>\n")
                done = run(arguments.compiler, "-std=c++17", "-fsyntax-only", f"-I{include}", source)
                first = next((line for line in done.stdout.splitlines() if "error: " in line), "")
                self.assertIn("vmart needs C++20: g++ -std=c++20, nvcc -std=c++20", first, header.name)


class Examples(unittest.TestCase):
    # One is made of the layers of the library, one needs CCCL.
    OTHERS = {"all_access.cpp", "naive_sequence.cpp", "memory_resource.cpp"}

    def test_compile_with_the_public_headers_alone(self):
        examples = [path for path in sorted((arguments.source / "examples").glob("*.cpp")) if path.name not in self.OTHERS]
        self.assertGreater(len(examples), 8)
        done = run(arguments.compiler, "-std=c++20", "-fsyntax-only", f"-I{arguments.source / 'include'}", *examples)
        self.assertEqual(done.returncode, 0, done.stdout)


class Installed(Page):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="vmart-installed-")
        cls.addClassCleanup(folder.cleanup)
        cls.prefix = pathlib.Path(folder.name)
        done = run("cmake", "--install", arguments.build, "--prefix", cls.prefix)
        if done.returncode != 0:
            raise RuntimeError(done.stdout)
        cls.pkg_config = {"PKG_CONFIG_PATH": str(next(cls.prefix.rglob("vmart.pc")).parent)}

    def assert_runs(self, program):
        libraries = str(next(self.prefix.rglob("libvmart.*")).parent)
        self.assertEqual(self.succeed(program, **SIMULATED, LD_LIBRARY_PATH=libraries), MOVED)

    @unittest.skipUnless(shutil.which("pkg-config"), "SKIPPED: pkg-config is not installed")
    def test_is_found_by_pkg_config(self):
        self.succeed("bash", "-euc", self.commands["g++"], cwd=self.folder, **self.pkg_config)
        self.assert_runs(self.folder / "program")

    def test_is_found_by_cmake(self):
        self.configure("installed", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.build("installed")
        self.assert_runs(self.folder / "installed" / "build" / "program")

    def test_is_found_by_an_old_cmake(self):
        if arguments.old_cmake is None or not arguments.old_cmake.exists():
            self.skipTest("SKIPPED: CMake 3.22, which .ci/setup.sh fetches where there is a network")
        self.assertIn("version 3.22", self.succeed(arguments.old_cmake, "--version"))
        self.configure("installed", f"-DCMAKE_PREFIX_PATH={self.prefix}", cmake=arguments.old_cmake)
        self.build("installed", cmake=arguments.old_cmake)
        self.assert_runs(self.folder / "installed" / "build" / "program")

    @unittest.skipUnless(shutil.which("nvcc"), "SKIPPED: nvcc is not installed")
    def test_is_used_by_nvcc(self):
        self.succeed("bash", "-euc", self.commands["nvcc"], cwd=self.folder, **self.pkg_config)
        expected = "at host(0): as expected\nat gpu(0): as expected\n"
        self.assertEqual(self.succeed(self.folder / "increment", **SIMULATED), expected)
        older = self.commands["nvcc"].replace("-std=c++20", "-std=c++17")
        self.assertIn("vmart needs C++20", self.fail_at("bash", "-euc", older, cwd=self.folder, **self.pkg_config))

    @unittest.skipUnless(shutil.which("nvcc"), "SKIPPED: nvcc is not installed")
    def test_is_used_by_cmake_with_nvcc(self):
        self.configure("cuda", f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_CUDA_ARCHITECTURES=90")
        self.build("cuda")
        self.assertIn("as expected", self.succeed(self.folder / "cuda" / "build" / "increment", **SIMULATED))


class Sources(Page):
    options = ("-DVMART_SIM_ONLY=ON", "-DVMART_BATCHES=ON", "-DCMAKE_CXX_FLAGS=-O0")

    def configure_sources(self, project, *options, cmake="cmake"):
        cached = dict(re.findall(r"^(\w+):\w+=(.*)$", (arguments.build / "CMakeCache.txt").read_text(), re.MULTILINE))
        boost = [f"-DBoost_ROOT={cached['Boost_ROOT']}", "-DBoost_NO_SYSTEM_PATHS=ON"] if cached.get("Boost_ROOT") else []
        launcher = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={shutil.which('ccache')}"] if shutil.which("ccache") else []
        self.configure(project, *self.options, *boost, *launcher, *options, cmake=cmake)

    def test_are_fetched_and_built(self):
        self.configure_sources("fetched", f"-DFETCHCONTENT_SOURCE_DIR_VMART={arguments.source}")
        self.build("fetched", "--parallel", "2", "--target", "program")
        self.assertEqual(self.succeed(self.folder / "fetched" / "build" / "program", **SIMULATED,
                                      VMART_MACHINES=str(arguments.source / "runtime" / "machine" / "machines")), MOVED)

    def test_are_configured_by_an_old_cmake(self):
        if arguments.old_cmake is None or not arguments.old_cmake.exists():
            self.skipTest("SKIPPED: CMake 3.22, which .ci/setup.sh fetches where there is a network")
        self.assertIn("release", self.succeed(arguments.old_cmake, "--list-presets", cwd=arguments.source))
        (self.folder / "subdirectory" / "vmart").symlink_to(arguments.source)
        self.configure_sources("subdirectory", "-DVMART_BUILD_TESTS=ON", cmake=arguments.old_cmake)

    def test_take_the_boost_that_is_fetched(self):
        """In place of the system's. The file is one of a few headers, so the network is not asked."""
        fetched, project = self.folder / "fetched boost", self.folder / "subdirectory"
        fetched.mkdir()
        (project / "vmart").symlink_to(arguments.source)
        with tarfile.open(fetched / "boost1.83_1.83.0.orig.tar.xz", "w:xz") as archive:
            for name, text in (("config/include/boost/version.hpp", b'#define BOOST_VERSION 108300\n#define BOOST_LIB_VERSION "1_83"\n'),
                               ("config/include/boost/config.hpp", b""), ("numeric/interval/include/boost/numeric/interval.hpp", b""),
                               ("config/doc/index.html", b"")):
                entry = tarfile.TarInfo(f"boost/libs/{name}")
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text))
        self.configure(project.name, *self.options, "-DVMART_FETCH_BOOST=ON", f"-DFETCHCONTENT_SOURCE_DIR_VMART_BOOST={fetched}")
        include = project / "build" / "vmart" / "boost-1.83.0" / "include"
        self.assertEqual(sorted(str(path.relative_to(include)) for path in include.rglob("*.*")),
                         ["boost/config.hpp", "boost/numeric/interval.hpp", "boost/version.hpp"])
        self.assertIn(f"Boost_INCLUDE_DIR:PATH={include}\n", (project / "build" / "CMakeCache.txt").read_text())

    def test_are_a_folder_of_the_project(self):
        (self.folder / "subdirectory" / "vmart").symlink_to(arguments.source)
        self.configure_sources("subdirectory")
        self.build("subdirectory", "--target", "CMakeFiles/program.dir/program.cpp.o")  # The library is the same one.


class Refusals(Page):
    """Of a build: what is missing, and what to type."""

    def refused(self, *options, cmake="cmake"):
        return self.fail_at(cmake, "-G", "Ninja", "-S", arguments.source, "-B", self.folder / "build", "-DVMART_SIM_ONLY=ON",
                         "-DVMART_BUILD_TOOLS=OFF", "-DVMART_BUILD_BENCH=OFF", *options)

    def test_name_the_packages(self):
        for name, package in (("fmt", "apt install libfmt-dev"), ("Boost", "on Ubuntu 24.04; elsewhere configure with -DVMART_FETCH_BOOST=ON"),
                              ("GTest", "apt install libgtest-dev libgmock-dev")):
            with self.subTest(name=name):
                said = self.refused(f"-DCMAKE_CXX_COMPILER={arguments.compiler}", f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON",
                                    *self.boost_beside(name))
                self.assertIn(f"vmart needs {name} ", said)
                self.assertIn(package, said)
                self.assertIn(f"-D{name}_ROOT=PREFIX", said)
                shutil.rmtree(self.folder / "build")

    def boost_beside(self, name):
        root = re.search(r"^Boost_ROOT:\w+=(.+)$", (arguments.build / "CMakeCache.txt").read_text(), re.MULTILINE)
        return [f"-DBoost_ROOT={root[1]}", "-DBoost_NO_SYSTEM_PATHS=ON"] if root and name != "Boost" else []

    def test_name_compilers_that_are_too_old(self):
        for identity, version, said in (("Clang", "14.0.6", "vmart needs clang++ 16 or newer"),
                                        ("GNU", "10.2.1", "vmart needs g++ 11 or newer")):
            with self.subTest(identity=identity):
                # What CMake would find out of such a compiler.
                answer = self.refused("-DCMAKE_CXX_COMPILER_FORCED=ON", f"-DCMAKE_CXX_COMPILER={arguments.compiler}",
                                      f"-DCMAKE_CXX_COMPILER_ID={identity}", f"-DCMAKE_CXX_COMPILER_VERSION={version}",
                                      "-DCMAKE_CXX_COMPILER_ID_RUN=ON")
                self.assertIn(said, answer)
                self.assertIn(f"is {version}.", answer)
                self.assertIn("apt install clang-16", answer)
                shutil.rmtree(self.folder / "build")



if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("tests")
    for name in ("source", "build", "old-cmake"):
        parser.add_argument(f"--{name}", type=pathlib.Path)
    parser.add_argument("--compiler")
    arguments = parser.parse_args()
    unittest.main(argv=[sys.argv[0], arguments.tests, "-v"])
