#!/usr/bin/env python3
"""The reader of pages notices what one has wrong, and reads all that have commands."""

import pathlib
import unittest

import pages


class Shown(unittest.TestCase):
    def test_numbers_and_columns_may_differ(self):
        pages.require_shown("a  12 MiB at gpu(0)\n...\nend 0x1f\n", "a 3.5  MiB at gpu(0)\nb\nend 0xabc\n")

    def test_places_words_and_order_may_not(self):
        for shown in ("at gpu(1)\n", "at host(0)\n", "end\nat gpu(0)\n"):
            with self.subTest(shown=shown), self.assertRaises(pages.Wrong):
                pages.require_shown(shown, "at gpu(0)\nend\n")

    def test_marks_belong_to_the_next_block(self):
        page = "<!-- file: a.cpp -->\n```cpp\nint a;\n```\n\n```sh\nls\n```\n"
        self.assertEqual(pages.BLOCK.findall(page), [("file: a.cpp", "cpp", "int a;\n"), ("", "sh", "ls\n")])

    def test_output_of_commands_that_are_not_run_is_not_expected(self):
        page = "<!-- not run: no GPU -->\n```sh\nls\n```\n\n```text\nx\n```\n\n```sh\npwd\n```\n\n```text\n/\n```\n"
        self.assertEqual(list(pages.blocks(page)), [("", "sh", "pwd\n"), ("", "text", "/\n")])


class Documentation(unittest.TestCase):
    STARTS = ("README.md", "tutorial/first_move.md", "tutorial/python.md")  # CMakeLists.txt has the same.

    def test_each_page_with_commands_is_tried(self):
        docs = pathlib.Path(__file__).resolve().parents[2] / "docs"
        tried = [page for start in self.STARTS for page in pages.pages_from(start, docs)]
        self.assertEqual([page for page in pages.pages_to_try(docs) if page not in tried], [],
                         "has commands and neither says `after` nor that they are not run")


if __name__ == "__main__":
    unittest.main()
