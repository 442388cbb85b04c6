#!/usr/bin/env python3
"""Draws the example's figure from made-up results: figure_test.py LAB_FIGURE. Exits with 77, which
ctest shows as skipped, where pandas or matplotlib is missing."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import made_folder

SKIPPED = 77
SCRIPT = sys.argv.pop()


FONTS = tempfile.TemporaryDirectory()
ENVIRONMENT = {**os.environ, "MPLCONFIGDIR": FONTS.name}


def setUpModule():
    """Matplotlib looks through all fonts at its first use, and says so if that takes long."""
    unittest.addModuleCleanup(FONTS.cleanup)
    subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], env=ENVIRONMENT,
                   capture_output=True, check=False)


def draw(folder, name, *words):
    return subprocess.run([sys.executable, "-B", SCRIPT, str(folder), str(folder / name), *words],
                          env=ENVIRONMENT, capture_output=True, text=True, check=False)


class Figure(unittest.TestCase):
    def setUp(self):
        owner = tempfile.TemporaryDirectory()
        self.addCleanup(owner.cleanup)
        self.folder = pathlib.Path(owner.name) / "made"

    def test_every_trace_and_every_policy_with_a_bound_is_named_in_the_same_bytes(self):
        made_folder.write_folder(self.folder, traces=("drift", "phases"), windows=2)
        for name in ("first.svg", "second.svg"):
            done = draw(self.folder, name)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        text = (self.folder / "first.svg").read_text()
        self.assertEqual(text, (self.folder / "second.svg").read_text())
        for word in ("drift", "phases", "stay_put", "cost_benefit", "time / lower bound", "h200x2"):
            self.assertIn(word, text)
        self.assertNotIn("threshold", text)  # It lost accesses, so it has no regret.

    def test_without_a_bound_it_says_so(self):
        made_folder.write_folder(self.folder, bound=False, windows=2)
        done = draw(self.folder, "figure.svg")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no cell with a lower bound", done.stderr)
        self.assertIn("x has no cell", draw(self.folder, "figure.svg", "--machine", "x").stderr)


if __name__ == "__main__":
    try:
        import matplotlib  # noqa: F401
        import pandas  # noqa: F401
    except ImportError as error:
        print(f"SKIPPED: {error}", file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main()
