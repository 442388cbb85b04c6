#!/usr/bin/env python3
"""Goal: the support table is what records of runs say, and nothing else. Method: the real page and records, changed in a copy."""

import contextlib
import io
import json
import pathlib
import shutil
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import support  # noqa: E402


class Support(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / support.PAGE).parent.mkdir(parents=True)
        shutil.copy(ROOT / support.PAGE, self.root / support.PAGE)
        self.records = self.root / support.RECORDS
        shutil.copytree(ROOT / support.RECORDS, self.records)

    def run_main(self, *arguments):
        with unittest.mock.patch.object(sys, "argv", ["support.py", *arguments]), contextlib.redirect_stdout(io.StringIO()):
            return support.main(self.root)

    def page(self):
        return (self.root / support.PAGE).read_text(encoding="utf-8")

    def test_the_page_is_what_the_records_say(self):
        self.assertEqual(self.run_main("--check"), 0)
        self.assertGreaterEqual(len(support.rows(self.records)), 20)

    def test_a_row_by_hand_is_noticed_and_removed(self):
        page, before = self.root / support.PAGE, self.page()
        page.write_text(before.replace(support.END, "| my GPU | 1 | 1 x B200 | 600 | 14 | 1 as bare | |\n" + support.END), encoding="utf-8")
        self.assertEqual(self.run_main("--check"), 1)
        self.assertEqual(self.run_main(), 0)
        self.assertEqual(self.page(), before)

    def test_a_record_of_programs_has_a_row_for_each_framework(self):
        programs = [{"name": f"torch.{name}", "verdict": verdict, "gpu": "1 x NVIDIA B200", "commit": "0123456789ab"}
                    for name, verdict in (("train", ""), ("graph", "other output"), ("serve", ""))]
        record = {"versions": {"torch": "3.1", "driver": "600.1"}, "programs": programs}
        (self.records / "run_programs_b200x1.json").write_text(json.dumps(record), encoding="utf-8")
        self.assertEqual(self.run_main("--check"), 1)
        self.run_main()
        self.assertIn("| PyTorch under `vmart run` | 3.1 | 1 x B200 | 600.1 | not recorded | 2 as bare, 1 other output | `01234567` |\n", self.page())

    def test_records_of_one_machine_and_kind_share_a_row(self):
        def live(date, commit):
            context = {"gpus": ["NVIDIA B200"] * 2, "driver_version": "600.1", "date": f"{date} 10:00 UTC", "commit": commit}
            (self.records / f"live_b200x2-{date}.json").write_text(json.dumps({"context": context}), encoding="utf-8")
        live("2027-01-02", "bbb")
        live("2027-01-01", "aaa")
        self.run_main()
        self.assertIn("| live moves |  | 2 x B200 | 600.1 | not recorded | 2, the last on 2027-01-02 | `aaa`, `bbb` |\n", self.page())


if __name__ == "__main__":
    unittest.main()
