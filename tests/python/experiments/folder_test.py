#!/usr/bin/env python3
"""What lies in a folder of results before a run: links are followed by results and by nothing that is removed,
and what is odd is done anew: folder_test.py VMART_LAB."""

import json
import os
import unittest

import rig
from vmart.lab.whole_file import write_whole

PROGRAM = rig.program_argument()


class Links(rig.Rig):
    program = PROGRAM

    def setUp(self):
        super().setUp()
        self.write(rig.QUICK)
        self.away = self.folder / "away"
        self.away.mkdir()

    def test_what_a_link_leads_to_is_not_removed(self):
        (self.away / "letter.txt").write_text("dear")
        (self.folder / "results").mkdir()
        (self.folder / "results/unfinished").symlink_to(self.away)
        self.run_into("results", only=[rig.FIRST])
        self.assertEqual(self.results("away"), {"letter.txt": b"dear"})
        self.assertNotIn("unfinished", self.results("results"))

    def test_leftovers_are_removed(self):
        left = self.folder / "results/unfinished/one/two"
        left.mkdir(parents=True)
        (left / "cell").write_text("{")
        self.run_into("results", only=[rig.FIRST])
        self.assertNotIn("unfinished", self.results("results"))

    def test_results_are_written_to_where_a_link_leads(self):
        self.run_into("whole")
        (self.folder / "results").mkdir()
        (self.away / "table").write_text("")
        (self.folder / "results/results.csv").symlink_to(self.away / "table")
        (self.folder / "results/experiment.json").write_bytes(self.file.read_bytes())
        self.run_into("results")
        self.assertTrue((self.folder / "results/results.csv").is_symlink())
        self.assertEqual((self.away / "table").read_bytes(), self.results("whole")["results.csv"])


    def test_a_report_is_written_to_where_a_link_leads(self):
        (self.folder / "report.html").symlink_to(self.away / "page")
        write_whole(self.folder / "report.html", b"page")
        self.assertTrue((self.folder / "report.html").is_symlink())
        self.assertEqual(self.results("away"), {"page": b"page"})


class OddFiles(rig.Rig):
    program = PROGRAM

    def setUp(self):
        super().setUp()
        self.write({**rig.OWN, "bounds": True})
        (self.folder / "own.jsonl").write_text(rig.EVENTS)
        self.run_into("results")
        self.whole = self.results("results")
        self.cell = self.folder / f"results/cells/{rig.OWN_CELL}.json"
        self.bound = self.folder / "results/bounds/test-2~own~prefix~s1.json"

    def changed(self, path, **members):
        """Another line of JSON with some members changed."""
        path.write_text(json.dumps(json.loads(path.read_text()) | members, separators=(",", ":")) + "\n")

    def expect_done_anew(self, cells):
        outcome = self.run_into("results")
        self.assertEqual((outcome.finished, self.told.ids), (1, cells))
        self.assertEqual(self.whole, self.results("results"))

    def test_a_cell_in_another_spacing_is_done_anew(self):
        self.cell.write_text(json.dumps(json.loads(self.cell.read_text()), indent=2) + "\n")
        self.expect_done_anew([rig.OWN_CELL])

    def test_a_cell_with_odd_members_is_done_anew(self):
        for members in ({"bound": "none"}, {"bound": {}}, {"regret": "much"}, {"metrics": []}, {"report": None}):
            with self.subTest(members):
                self.changed(self.cell, **members)
                self.expect_done_anew([rig.OWN_CELL])

    def test_a_bound_that_is_none_is_found_anew(self):
        for members in ({"bound": "none"}, {"bound": 3}, {"inputs": []}):
            with self.subTest(members):
                self.changed(self.bound, **members)
                self.expect_done_anew([])


class OddAnswers(rig.Rig):
    program = PROGRAM

    def setUp(self):
        super().setUp()
        self.write(rig.QUICK)

    def test_an_answer_that_is_no_cell_fails_its_cell_and_is_not_written(self):
        for number, answer in enumerate(("hello", "[]", '{"cell":{},"metrics":{},"report":{}}')):
            with self.subTest(answer):
                program, _ = rig.stand_in(self.folder / f"odd{number}", PROGRAM, f'"id": "{rig.FIRST}"',
                                          f"print({answer!r})")
                outcome = self.run_into(f"results{number}", program=program)
                self.assertEqual((outcome.finished, list(outcome.failed)), (7, [rig.FIRST]))
                self.assertIn("instead of a cell", outcome.failed[rig.FIRST])
                self.assertNotIn(f"cells/{rig.FIRST}.json", self.results(f"results{number}"))

    def test_an_answer_that_is_no_object_is_refused(self):
        program, _ = rig.stand_in(self.folder / "odd", PROGRAM, '"do": "policy"', "print('hello')")
        self.assertIn("policies[0]: vmart-lab answered b'hello\\n' instead of", self.error_of("results", program=program))


class ChangedInputs(rig.Rig):
    """A file that changes while cells run: no cell records another one than it ran with."""

    program = PROGRAM

    def test_a_machine(self):
        machine = self.folder / "test-mine.json"
        text = (rig.MACHINES / "test-2.json").read_text()
        machine.write_text(text)
        self.write({**rig.QUICK, "machines": ["./test-mine.json"], "seeds": [1, 2, 3, 4]})
        self.told.at_begin = lambda: machine.write_text(text.replace('"local_gb_s": 100', '"local_gb_s": 50'))
        outcome = self.run_into("results", 4)
        self.assertEqual(outcome.finished + len(outcome.failed), 8)
        for reason in outcome.failed.values():
            self.assertIn("inputs: machine_sum has changed", reason)
        machine.write_text(text)
        finished = {name: data for name, data in self.results("results").items() if name.startswith("cells/")}
        self.told.at_begin = lambda: None
        self.run_into("whole")
        whole = self.results("whole")
        for name, data in finished.items():
            self.assertEqual(data, whole[name], name)


if __name__ == "__main__":
    unittest.main()
