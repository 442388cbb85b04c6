#!/usr/bin/env python3
"""Goal: the summary is made from the samples and pages, and says so if one does not have what a row quotes.
Method: the real samples and pages, changed in a copy.
"""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import summary  # noqa: E402


class Summary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.samples, self.results = pathlib.Path(folder.name, "samples"), pathlib.Path(folder.name, "results")
        shutil.copytree(summary.SAMPLES, self.samples)
        shutil.copytree(summary.RESULTS, self.results)
        kept = summary.SAMPLES, summary.RESULTS
        self.addCleanup(lambda: [setattr(summary, *one) for one in zip(("SAMPLES", "RESULTS"), kept)])
        summary.SAMPLES, summary.RESULTS = self.samples, self.results

    def replace(self, path, old, new):
        text = path.read_text(encoding="utf-8")
        self.assertEqual(text.count(old), 1)
        path.write_text(text.replace(old, new), encoding="utf-8")

    def test_the_page_and_readme_are_what_it_writes(self):
        summary.SAMPLES, summary.RESULTS = ROOT / "docs/measurements", ROOT / "docs/results"
        for path, text in summary.written().items():
            self.assertEqual(path.read_text(encoding="utf-8"), text, f"run docs/summary.py: {path}")

    def test_has_ten_rows_each_with_a_rival_a_machine_and_a_commit(self):
        rows = [row() for row in summary.ROWS]
        self.assertEqual(len(rows), 10)
        for row in rows:
            for value in (row.what, row.ours, row.rival, row.machine, row.commit):
                self.assertTrue(value, row)

    def test_a_changed_sample_changes_its_row(self):
        path = self.samples / "run_timeline_h200x2.json"
        document = json.loads(path.read_text(encoding="utf-8"))
        document["bare"]["step_ms"], document["first_difference"] = 51.2, 17
        path.write_text(json.dumps(document), encoding="utf-8")
        row = summary.training()
        self.assertIn("51.2 ms", row.rival)
        self.assertIn("17 of 129 losses equal", row.ours)

    def test_a_program_that_differs_is_counted_as_such(self):
        before = summary.programs().ours
        path = self.samples / "run_programs_h200x2.json"
        document = json.loads(path.read_text(encoding="utf-8"))
        next(one for one in document["programs"] if one["moves"])["verdict"] = "moving: differs"
        path.write_text(json.dumps(document), encoding="utf-8")
        same, _, moved = before.split()[:3]
        self.assertTrue(summary.programs().ours.startswith(f"{int(same) - 1} of {moved} "), summary.programs().ours)

    def test_a_quoted_row_that_is_gone_or_changed_is_an_error(self):
        self.replace(self.results / "python.md", "15.4x and 5.7x", "14.9x and 5.7x")
        with self.assertRaisesRegex(LookupError, "python.md: 0 rows"):
            summary.pause()


if __name__ == "__main__":
    unittest.main()
