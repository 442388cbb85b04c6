#!/usr/bin/env python3
"""recipes_test.py [NAME...] [--compiler CXX] [--include FOLDER]... [--toolkit FOLDER] [--lab-tool FILE]

Goal: each recipe of docs/CONTRIBUTING.md works as it stands there, and touches at most three files beside its test and
its page. Method: its blocks are written into a copy of the tree. What they touch is compiled, and shows that the new
thing is there. Without its decisive line it is not. With all recipes at once, the tree passes all rules of tidy.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tidy"))
import tidy  # noqa: E402
from tree import CPP, Tree  # noqa: E402

PRODUCT = ("runtime/", "include/")
PRODUCT_FILES_MAX = 3
EXIT_SKIPPED = 77
STEP = re.compile(r"^(?:As \*\*(?P<new>[^*]+)\*\*|In `(?P<path>[^`]+)`, after (?P<tick>`+)(?P<line>.+?)(?P=tick)):\n\n"
                  r"```\w*\n(?P<block>.*?)^```$", re.MULTILINE | re.DOTALL)
OPTIONS = argparse.Namespace(compiler="g++", include=[], toolkit="/usr/local/cuda/include", lab_tool=None)


class Wrong(Exception):
    pass


@dataclass(frozen=True)
class Step:
    path: str
    after: str  # The line behind which the block comes; empty for a new file.
    block: str

    def apply(self, files):
        if not self.after:
            if self.path in files:
                raise Wrong(f"{self.path} is there already")
            files[self.path] = self.block
            return
        lines = files[self.path].split("\n")
        found = [number for number, line in enumerate(lines) if line.strip().startswith(self.after)]
        if len(found) != 1:
            raise Wrong(f"{self.path} has {len(found)} lines that begin with: {self.after}")
        files[self.path] = "\n".join(lines[:found[0] + 1] + self.block.rstrip("\n").split("\n") + lines[found[0] + 1:])


def steps_of(text, heading):
    """The steps below a heading, up to the next one of its level or above."""
    begin = text.index(f"\n### {heading}\n") + 1
    end = re.search(r"^##{1,2} ", text[begin + 4:], re.MULTILINE)
    part = text[begin:begin + 4 + end.start()] if end else text[begin:]
    return [Step(match["new"] or match["path"], match["line"] or "", match["block"]) for match in STEP.finditer(part)]


def steps_of_recipe(heading):
    return steps_of((ROOT / "docs/CONTRIBUTING.md").read_text(encoding="utf-8"), heading)


def files_with(steps):
    """The files of the tree, as these steps leave them."""
    files = dict(Tree.of_directory(str(ROOT)).files)
    for step in steps:
        step.apply(files)
    return files


class Copy:
    """A folder with what may be compiled of the tree, as the steps leave it."""

    def __init__(self, folder, steps):
        self.folder = pathlib.Path(folder)
        self.touched = sorted({step.path for step in steps})
        self.files = files_with(steps)
        for path, text in self.files.items():
            if path.startswith(PRODUCT) and path.endswith((*CPP, ".inc", ".json")) or path in self.touched:
                full = self.folder / path
                full.parent.mkdir(parents=True, exist_ok=True)
                full.write_text(text or (ROOT / path).read_text(encoding="utf-8"), encoding="utf-8")
        shutil.copy(ROOT / ".clang-format", self.folder)

    def change(self, path, old, new):
        text = (self.folder / path).read_text(encoding="utf-8")
        if old not in text:
            raise Wrong(f"{path} has no {old}")
        (self.folder / path).write_text(text.replace(old, new), encoding="utf-8")

    def compile(self, source, *flags):
        includes = [self.folder / "runtime", self.folder / "include", *OPTIONS.include, OPTIONS.toolkit]
        command = [OPTIONS.compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-DFMT_HEADER_ONLY", "-DVMART_HAS_CUDA=1",
                   *(f"-I{folder}" for folder in includes), *flags, str(self.folder / source)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def refusal(self, source):
        """What the compiler says against a source; empty if nothing."""
        done = self.compile(source, "-fsyntax-only")
        return done.stderr if done.returncode != 0 else ""

    def printed(self, program, *sources):
        """Compiles the sources as one, with the program behind them, and runs that."""
        text = "".join(f'#include "{source}"\n' for source in sources) + program
        (self.folder / "program.cpp").write_text(text, encoding="utf-8")
        built = self.compile("program.cpp", "-o", str(self.folder / "program"))
        if built.returncode != 0:
            raise Wrong(built.stderr)
        return subprocess.run([self.folder / "program"], capture_output=True, text=True, check=True).stdout


class Recipe(unittest.TestCase):
    heading = None  # Of the recipe; this class itself has no tests.

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.copy = Copy(folder.name, steps_of_recipe(self.heading))
        product = [path for path in self.copy.touched if path.startswith(PRODUCT)]
        self.assertTrue(0 < len(product) <= PRODUCT_FILES_MAX, product)
        self.require_format()

    def require_format(self):
        sources = [self.copy.folder / path for path in self.copy.touched if path.endswith(CPP)]
        if sources and shutil.which(tidy.CLANG_FORMAT):
            done = subprocess.run([tidy.CLANG_FORMAT, "--dry-run", "-Werror", *sources], capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.stderr, "")

    def compiles(self, *sources):
        for source in sources:
            self.assertEqual(self.copy.refusal(source), "", source)


class Policy(Recipe):
    heading = "Add a policy"
    LISTED = """#include "lab/policies/lab_policies.hpp"
#include <algorithm>
static_assert(std::ranges::count(vma::research_kinds, &vma::interleave_kind) == 1);
"""
    PROGRAM = """#include <cstdio>
int main() {
  using namespace vma;
  PolicyRegistry kinds;
  kinds.add(interleave_kind());
  MachineCosts costs(2, 3);
  for (const PlaceId device : {PlaceId{0}, PlaceId{1}})
    for (const PlaceId at : {PlaceId{0}, PlaceId{1}, PlaceId{2}}) costs.access_rate(device, at) = 1e9;
  costs.rank();
  const ChunkTables tables({{gpu(0), 1 << 20, 0, 0}, {gpu(1), 1 << 20, 0, 0}, {host(0), 1 << 20, 0, 0}}, costs);
  std::vector<PlaceId> chunks(4, PlaceId{0});
  kinds.make("interleave")->on_alloc({.bytes = 4096, .chunk_bytes = 1024, .device = PlaceId{0}, .tag = {}},
                                     Snapshot(tables), chunks);
  for (const PlaceId place : chunks) std::printf("%d ", static_cast<int>(place));
}
"""
    SOURCES = ("lab/policies/interleave.cpp", "placement/policies/policy_registry.cpp",
               "placement/policies/policy_text.cpp", "placement/books/chunk_tables.cpp",
               "placement/books/heat_cells.cpp", "placement/books/idle_order.cpp", "placement/books/snapshot.cpp",
               "base/error.cpp", "base/place.cpp", "base/nearest_name.cpp", "base/check.cpp")

    def test_the_lab_has_it_and_it_decides(self):
        (self.copy.folder / "listed.cpp").write_text(self.LISTED, encoding="utf-8")
        self.compiles("listed.cpp", "runtime/lab/policies/lab_policies.cpp")
        self.assertEqual(self.copy.printed(self.PROGRAM, *self.SOURCES), "0 1 0 1 ")
        self.copy.change("runtime/lab/policies/lab_policies.hpp", "    interleave_kind,\n", "")
        self.assertIn("static assertion failed", self.copy.refusal("listed.cpp"))


class Place(Recipe):
    heading = "Add a place"

    def test_the_machine_has_it(self):
        machine = json.loads((self.copy.folder / self.copy.touched[0]).read_text(encoding="utf-8"))
        self.assertEqual(pathlib.Path(self.copy.touched[0]).stem, machine["name"])
        self.assertEqual(len(machine["host_nodes"]), 2)
        if OPTIONS.lab_tool is None:
            self.skipTest("the rest needs --lab-tool")
        environment = {**os.environ, "VMART_MACHINES": str(self.copy.folder / "runtime/machine/machines")}
        shown = subprocess.run([OPTIONS.lab_tool, "machine", "show", machine["name"]], env=environment, capture_output=True,
                               text=True, check=True).stdout
        self.assertRegex(shown, r"gpu\(0\) -> host\(1\) +2 +25 ")
        self.copy.change(self.copy.touched[0], ', {"memory_mib": 262144}', "")
        done = subprocess.run([OPTIONS.lab_tool, "machine", "check", machine["name"]], env=environment, capture_output=True,
                              text=True, check=False)
        self.assertIn("host_nodes[1]", done.stdout + done.stderr)


class Counter(Recipe):
    heading = "Add a counter"
    PROGRAM = """#include <cstdio>
int main() {
  vma::ControlStats stats;
  stats.scheduler.moves_running = 7;
  std::puts(vma::prometheus_text(stats).c_str());
}
"""
    SOURCES = ("control/prometheus.cpp", "base/error.cpp", "base/place.cpp")

    def test_it_is_counted_and_shown_under_one_name(self):
        self.compiles("runtime/scheduling/scheduled_moves.cpp", "runtime/control/control_json.cpp")
        lines = self.copy.printed(self.PROGRAM, *self.SOURCES).split("\n")
        self.assertIn("vmart_scheduler_moves_running 7", lines)
        help_text = next(line for line in lines if line.startswith("# HELP vmart_scheduler_moves_running "))
        row = f"| `moves_running` |  | `vmart_scheduler_moves_running` | {help_text.split(' ', 3)[3]} |"
        self.assertIn(row, self.copy.files["docs/guide/control.md"].split("\n"))
        self.copy.change("include/vma/counters.hpp",
                         'gauge("moves_running", &Stats::moves_running, "Moves begun that have not ended."),', "")
        self.assertNotIn("moves_running", self.copy.printed(self.PROGRAM, *self.SOURCES))

    def test_all_that_show_counters_take_them_from_the_table(self):
        for path in ("runtime/control/prometheus.cpp", "runtime/control/control_json.cpp", "runtime/python/core/runtime.cpp"):
            self.assertIn("for_each_counter<", self.copy.files[path], path)


class EntryPoint(Recipe):
    heading = "Add a call that `vmart run` sees"
    PROGRAM = """#include <cstdio>
int main() {
  for (const char* symbol : {"cuMemsetD64Async", "cuMemsetD64Async_ptsz"})
    std::puts(vma::kind_of_call(symbol) == vma::CallKind::hooked ? "hooked" : "not hooked");
}
"""

    def setUp(self):
        if not pathlib.Path(OPTIONS.toolkit, "cuda.h").is_file():
            self.skipTest("needs cuda.h: --toolkit")
        super().setUp()

    def test_it_has_a_hook_and_a_guard(self):
        self.compiles("runtime/interpose/hooks/resolving_hooks.cpp", "runtime/guards/driver_guards.cpp")
        self.assertEqual(self.copy.printed(self.PROGRAM, "entry_points/known_calls.cpp"), "hooked\nhooked\n")

    def test_it_is_refused_without_its_trait(self):
        self.copy.change("runtime/entry_points/entry_points.hpp", "vma::MemsetD64, enqueues | looks_up |",
                         "vma::MemsetD64, enqueues |")
        self.assertIn("a row of entry_points.hpp lacks a trait",
                      self.copy.refusal("runtime/entry_points/known_calls.cpp"))

    def test_the_list_of_calls_has_it_as_hooked(self):
        kind = {}
        for entry in re.split(r"\n(?=\d)", re.sub(r"#.*", "", self.copy.files["tests/run/driver_calls.txt"])):
            head, _, symbols = entry.partition(":")
            kind.update(dict.fromkeys(symbols.split(), head.split()[-1] if head.split() else ""))
        self.assertEqual(kind["cuMemsetD64Async+ptsz"], "hooked")


class Together(unittest.TestCase):
    def test_all_recipes_pass_the_rules(self):
        steps = [step for recipe in (Policy, Place, Counter, EntryPoint) for step in steps_of_recipe(recipe.heading)]
        self.assertEqual(tidy.offences_in(Tree(files_with(steps))), [])


class Steps(unittest.TestCase):
    def test_a_step_needs_its_line_once(self):
        for text in ("a;\n", "b;\n  b;\n"):
            with self.subTest(text), self.assertRaises(Wrong):
                Step("x.cpp", "b;", "c;\n").apply({"x.cpp": text})

    def test_a_block_comes_behind_its_line(self):
        files = {"x.cpp": "a;\n  b;  // B.\nd;\n"}
        Step("x.cpp", "b;", "  c;\n").apply(files)
        self.assertEqual(files["x.cpp"], "a;\n  b;  // B.\n  c;\nd;\n")

    def test_steps_end_at_the_next_heading(self):
        page = "\n### A\n\nAs **a.cpp**:\n\n```cpp\nint a;\n```\n\nIn `b.md`, after ``| `x` |``:\n\n```text\n| y |\n```\n\n## B\n"
        self.assertEqual(steps_of(page, "A"), [Step("a.cpp", "", "int a;\n"), Step("b.md", "| `x` |", "| y |\n")])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="Policy, Place, Counter, EntryPoint, Together, Steps; default: all")
    parser.add_argument("--compiler", default=OPTIONS.compiler)
    parser.add_argument("--include", action="append", default=[], help="where Boost and fmt are, if not in the system's folders")
    parser.add_argument("--toolkit", default=OPTIONS.toolkit, help="the headers of CUDA")
    parser.add_argument("--lab-tool", help="vmart-lab")
    parser.parse_args(namespace=OPTIONS)
    result = unittest.main(argv=[sys.argv[0], *OPTIONS.names], verbosity=2, exit=False).result
    if not result.wasSuccessful():
        return 1
    return EXIT_SKIPPED if len(result.skipped) == result.testsRun else 0


if __name__ == "__main__":
    sys.exit(main())
