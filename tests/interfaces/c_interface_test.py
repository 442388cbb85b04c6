#!/usr/bin/env python3
"""Goal: programs that were built with the last release work with this libvmart. c_interface_test.py --source DIR
--library libvmart.so
Method: the headers and the library are compared with c_interface.json; then headers that are changed on purpose, which the
comparison refuses or lets pass, as docs/reference/versions.md says.
"""

import argparse
import copy
import functools
import json
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import c_interface

CLANG = c_interface.find_clang()
RELEASE = json.loads(c_interface.RELEASE.read_text(encoding="utf-8"))
arguments = None


def version_of(source):
    return re.search(r"project\(vmart VERSION ([\d.]+)", (source / "CMakeLists.txt").read_text(encoding="utf-8"))[1]


@functools.cache  # For all tests: clang and a compiler run for each.
def described(*changes, version=None):
    """The interface with these changes to vmart.h."""
    with tempfile.TemporaryDirectory() as name:
        include = pathlib.Path(name)
        shutil.copytree(arguments.source / "include/vma", include / "vma")
        text = (include / "vma/vmart.h").read_text(encoding="utf-8")
        for before, after in changes:
            unittest.TestCase().assertEqual(text.count(before), 1, before)
            text = text.replace(before, after)
        (include / "vma/vmart.h").write_text(text, encoding="utf-8")
        return c_interface.describe(include, arguments.library, CLANG, version or version_of(arguments.source))


@unittest.skipIf(CLANG is None, "SKIPPED: clang is not installed (apt install clang-16)")
@unittest.skipIf(shutil.which("nm") is None, "SKIPPED: nm is not installed (apt install binutils)")
class CInterface(unittest.TestCase):
    def found(self, *changes):
        return c_interface.incompatible(described(), described(*changes))

    def refused(self, *changes):
        found = self.found(*changes)
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_is_that_of_the_last_release(self):
        self.assertGreater(len(RELEASE["functions"]), 80)
        self.assertEqual(c_interface.incompatible(RELEASE, described()), [],
                         "what programs of the last release use has changed: docs/reference/versions.md")

    def test_the_newest_version_of_symbols_is_the_one_that_the_tools_print(self):
        nodes = {function.partition(":")[0] for function in described()["functions"].values()}
        newest = max(nodes, key=lambda node: tuple(map(int, node.removeprefix("VMART_").split("."))))
        header = (arguments.source / "runtime/base/interface_versions.hpp").read_text(encoding="utf-8")
        self.assertEqual(newest, "VMART_" + re.search(r'c_interface = "([\d.]+)"', header)[1])

    def test_changed_signatures_values_and_types_are_found(self):
        self.assertIn("function vmart_where was VMART_0.2: vmart_status (const void *, vmart_place *), and is",
                      self.refused(("vmart_where(const void* pointer, vmart_place* out)",
                                    "vmart_where(const void* pointer, int flags, vmart_place* out)")))
        self.assertIn("constant VMART_BUSY was 5, and is 6", self.refused(("VMART_BUSY = 5,", "VMART_BUSY = 6,")))
        self.assertIn("constant VMART_DROPPED is missing", self.refused(("  VMART_DROPPED = 13,\n", "")))
        self.assertIn("type vmart_move_callback was void (*)(vmart_move_event *, void *), and is",
                      self.refused(("typedef void (*vmart_move_callback)(", "typedef int (*vmart_move_callback)(")))

    def test_changed_structs_are_found(self):
        last = "  double passes;       /**< Passes over the range, from then on; 0 means 1. */\n"
        self.assertIn("member of vmart_hint: gpu was 8: int32_t, and is 8: uint32_t",
                      self.refused(("\n  int32_t gpu; ", "\n  uint32_t gpu; ")))
        self.assertIn("new member more of vmart_hint lies inside", " ".join(self.found(
            ("  int32_t read_mostly;\n", "  int32_t read_mostly;\n  int64_t more;\n"))))
        self.assertIn("member of vmart_hint: passes is missing", self.found((last, "")))
        # Passed by value, and nobody says how large it is.
        self.assertIn("struct vmart_place had 8 bytes, and has 12", self.found(
            ("  int kind;\n  int ordinal;\n", "  int kind;\n  int ordinal;\n  int part;\n")))

    def test_removed_and_undeclared_calls_are_found(self):
        call = re.search(r"VMART_EXPORT vmart_status vmart_trim\([^;]*;",
                         (arguments.source / "include/vma/vmart.h").read_text(encoding="utf-8"))[0]
        self.assertEqual(self.found((call, "")), ["function vmart_trim is missing", "vmart_trim is exported as VMART_0.2, but not declared"])
        self.assertIn("function vmart_new is declared, but not exported",
                      self.refused((call, call + "\nVMART_EXPORT void vmart_new(void);")))

    def test_additions_pass(self):
        passes = "  double passes;       /**< Passes over the range, from then on; 0 means 1. */\n"
        now = described((passes, passes + "  int64_t more;\n"), ("VMART_NOT_PERMITTED = 15,", "VMART_NOT_PERMITTED = 15, VMART_NEW = 16,"),
                             ("typedef struct vmart_pin vmart_pin;", "typedef struct vmart_pin vmart_pin;\ntypedef struct vmart_new vmart_new;"))
        self.assertEqual(now["structs"]["vmart_hint"]["size"], RELEASE["structs"]["vmart_hint"]["size"] + 8)
        self.assertEqual(now["constants"]["VMART_NEW"], 16)
        self.assertEqual(c_interface.incompatible(described(), now), [])

    def test_a_new_call_has_the_version_that_has_it_first(self):
        before = copy.deepcopy(described())
        del before["functions"]["vmart_trim"]
        self.assertEqual(c_interface.incompatible(before, described()), [])  # Before the release.
        later = copy.deepcopy(described(version="999.0.0"))
        self.assertEqual([line.partition(":")[0] for line in c_interface.incompatible(before, later)],
                         ["function vmart_trim is new, but has the version VMART_0.2 of a release"])
        later["functions"]["vmart_trim"] = "VMART_999.0: " + later["functions"]["vmart_trim"].partition(": ")[2]
        self.assertEqual(c_interface.incompatible(before, later), [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path)
    parser.add_argument("--library", type=pathlib.Path)
    arguments = parser.parse_args()
    unittest.main(argv=[sys.argv[0], "-v"])
