#!/usr/bin/env python3
"""The reader of tutorials notices what a page has wrong."""

import sys
import unittest

import tutorial


class Shown(unittest.TestCase):
    def test_numbers_and_columns_may_differ(self):
        tutorial.require_shown("a  12 MiB at gpu(0)\n...\nend 0x1f\n", "a 3.5  MiB at gpu(0)\nb\nend 0xabc\n")

    def test_places_words_and_order_may_not(self):
        for shown in ("at gpu(1)\n", "at host(0)\n", "end\nat gpu(0)\n"):
            with self.subTest(shown=shown), self.assertRaises(tutorial.Wrong):
                tutorial.require_shown(shown, "at gpu(0)\nend\n")

    def test_marks_belong_to_the_next_block(self):
        page = "<!-- file: a.cpp -->\n```cpp\nint a;\n```\n\n```sh\nls\n```\n"
        self.assertEqual(tutorial.BLOCK.findall(page), [("file: a.cpp", "cpp", "int a;\n"), ("", "sh", "ls\n")])

    def test_a_page_says_which_modules_it_needs(self):
        page = "<!-- needs: json -->\n<!-- needs: no_such_module -->\n\n# Title\n"
        self.assertEqual(tutorial.missing(page, sys.executable), ["no_such_module"])


if __name__ == "__main__":
    unittest.main()
