#!/usr/bin/env python3
"""Goal: a program says which version it is, and what it was built from. version_test.py --source DIR --build DIR
[--tools PROGRAM...]
[--library FILE]
Method: what the tools print is compared with CMakeLists.txt, the build's cache and docs/reference/versions.md; the script
that finds the commit is run on a repository, an archive of it, and others.
"""

import argparse
import ctypes
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

GIT = shutil.which("git")
FEATURES = {"cuda": ("VMART_SIM_ONLY", False), "python": ("VMART_BUILD_PYTHON", True),
            "check_access": ("VMART_CHECK_ACCESS", True)}
TRUE = {"1", "ON", "TRUE", "YES", "Y"}
arguments = None


def run(*command, cwd=None):
    return subprocess.run([str(part) for part in command], cwd=cwd, check=True, capture_output=True, text=True).stdout


class Tools(unittest.TestCase):
    def setUp(self):
        if not arguments.tools:
            self.skipTest("SKIPPED: the tools are not built (apt install libcli11-dev)")
        self.said = [json.loads(run(tool, "--version", "--json")) for tool in arguments.tools]

    def test_say_the_version_of_the_project(self):
        version = re.search(r"project\(vmart VERSION ([\d.]+)", (arguments.source / "CMakeLists.txt").read_text())[1]
        for tool, said in zip(arguments.tools, self.said):
            self.assertEqual((said["program"], said["version"]), (tool.name, version))
            self.assertEqual(run(tool, "--version"), f"{tool.name} {version}\n")
            self.assertEqual(said["interfaces"]["cpp"], version.rpartition(".")[0])
            self.assertRegex(said["interfaces"]["run"], "^[0-9a-f]{16}$")
            for other in (("-V", "--json"), ("--json", "--version"), ("version", "--json")):
                self.assertEqual(json.loads(run(tool, *other)), said)

    def test_say_what_the_build_has(self):
        cached = dict(re.findall(r"^(\w+):\w+=(.*)$", (arguments.build / "CMakeCache.txt").read_text(), re.MULTILINE))
        for said in self.said:
            for feature, (option, value) in FEATURES.items():
                self.assertEqual(said["features"][feature], (cached[option].upper() in TRUE) == value, feature)
            self.assertEqual(said["build_type"], cached["CMAKE_BUILD_TYPE"])
            self.assertRegex(said["compiler"], r"^(GNU|Clang) \d+\.")

    def test_say_one_commit_that_git_knows(self):
        commits = {said["commit"] for said in self.said}
        self.assertEqual(len(commits), 1)
        if GIT is None or not (arguments.source / ".git").exists():
            self.skipTest("SKIPPED: the sources are no repository of git")
        self.assertEqual(run(GIT, "-C", arguments.source, "cat-file", "-t", commits.pop()), "commit\n")

    def test_say_which_run_table_the_library_gives(self):
        if not arguments.library:
            self.skipTest("SKIPPED: the library is static")
        table = ctypes.CDLL(arguments.library).vmart_run_table
        table.argtypes, table.restype = [ctypes.c_uint64], ctypes.c_void_p
        for said in self.said:
            version = int(said["interfaces"]["run"], 16)
            self.assertIsNotNone(table(version))
            self.assertIsNone(table(version + 1))

    def test_members_are_in_the_reference(self):
        page = (arguments.source / "docs/reference/versions.md").read_text()
        for said in self.said:
            for name in [*said, *said["features"], *said["interfaces"], *said["libraries"]]:
                self.assertIn(f"`{name}`", page)


@unittest.skipIf(GIT is None, "SKIPPED: git is not installed")
class Commit(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.repository = self.folder / "repository"
        self.repository.mkdir()
        for name in (".git_archival.txt", ".gitattributes"):
            shutil.copy(arguments.source / name, self.repository)
        (self.repository / "below").mkdir()
        self.git("init", "-q")
        self.git("add", ".")
        self.git("-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "-m", "all")
        self.commit = self.git("rev-parse", "HEAD").strip()

    def git(self, *words):
        return run(GIT, "-C", self.repository, *words)

    def named(self, source, git=GIT):
        out = self.folder / "commit.cpp"
        run("cmake", f"-DSOURCE={source}", f"-DOUT={out}", f"-DGIT={git}", "-P", arguments.source / "runtime/tools/commit.cmake")
        value = re.search(r"built_commit = (.*);", out.read_text())[1]
        return None if value == "nullptr" else value.strip('"')

    def archive(self, target):
        target.mkdir(parents=True)
        (self.folder / "a.tar").write_bytes(subprocess.run([GIT, "-C", self.repository, "archive", "HEAD"], check=True,
                                                           capture_output=True).stdout)
        run("tar", "-xf", self.folder / "a.tar", "-C", target)
        return target

    def test_of_a_repository_is_what_git_says(self):
        self.assertEqual(self.named(self.repository), self.commit)

    def test_of_an_archive_is_in_its_file(self):
        self.assertEqual(self.named(self.archive(self.folder / "archive")), self.commit)
        self.assertEqual(self.named(self.folder / "archive", git=""), self.commit)

    def test_of_another_repository_around_it_is_not_taken(self):
        self.assertIsNone(self.named(self.repository / "below"))
        self.assertEqual(self.named(self.archive(self.repository / "vendored")), self.commit)

    def test_is_unknown_without_both(self):
        self.assertIsNone(self.named(self.repository, git=""))  # The file is not filled in.
        self.assertIsNone(self.named(self.folder))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--library", type=pathlib.Path)
    parser.add_argument("--tools", type=pathlib.Path, nargs="*")
    arguments = parser.parse_args()
    unittest.main(argv=[sys.argv[0], "-v"])
