#!/usr/bin/env python3
"""Tests the study: what its tables say of made-up cells, worked out by hand; how what is wrong is
refused; and all of it on a small experiment, where `vmart-lab` is given: study_test.py [VMART_LAB]."""

import contextlib
import csv
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import live_plots
import study
import study_cells
import study_plots
import study_tables

PROGRAM = sys.argv.pop() if len(sys.argv) > 1 and pathlib.Path(sys.argv[-1]).is_file() else None
ASKED = {"machines": ["m", "n"], "traces": ["t", "u"], "policies": ["harvest", "static", "slow"]}
DOCUMENT = "# Study\n" + "".join(f"\n<!-- study:begin {name} -->\n<!-- study:end -->\n"
                                 for name in study_tables.TABLES)
TINY = {
    "experiment": "tiny",
    "machines": [{"name": "half", "machine": "test-2", "hbm_share": 0.5}],
    "traces": [
        {"name": "drift", "generate": "zipf-drift", "parameters": {
            "gpus": 2, "object_bytes": 1048576, "length_s": 0.3, "objects": 30, "accesses_s": 300}},
        {"name": "round", "generate": "rebalance", "parameters": {
            "gpus": 2, "chunks": 4, "chunk_bytes": 1048576, "launch_bytes": 1048576}}],
    "policies": ["static", "harvest"], "bounds": True,
}


def cell(machine, trace, policy, cost_s, bound_s=1, **others):
    row = dict.fromkeys(study_cells.NUMBERS, "")
    row.update(machine=machine, trace=trace, policy=policy, cost_s=cost_s, lower_bound_s=bound_s, lost=0)
    return study_cells.Cell({**row, **others})


def sample():
    """Costs over the cheapest on m: harvest 1 and 2, static 4 and 1, slow 2 and 8."""
    cells = []
    for trace, costs in (("t", (2, 8, 4)), ("u", (6, 3, 24))):
        for policy, cost_s in zip(ASKED["policies"], costs):
            cells.append(cell("m", trace, policy, cost_s, moved=0.5, stall=0.01, hbm_gib=2, plan_s=1.5))
    for trace, costs in (("t", (1.03, 1, 2)), ("u", (1, 1.005, 3))):
        for policy, cost_s in zip(ASKED["policies"], costs):
            cells.append(cell("n", trace, policy, cost_s, "", lost=7 if cost_s == 3 else 0))
    return study_cells.Study(cells, "made up")


def rows_of(table, machine=None):
    """The cells of a markdown table's rows, by the first one."""
    if machine is not None:
        table = table[table.index(f"on {machine}\n"):]
        table = table[:table.find("\n###") if "\n###" in table else None]
    rows = [[each.strip() for each in line[1:-1].split("|")]
            for line in table.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in rows[2:]}


class Tables(unittest.TestCase):
    def test_overall_is_the_geometric_mean_of_costs_over_the_cheapest(self):
        text = study_tables.overall(sample(), ASKED)
        rows = rows_of(text)
        self.assertEqual(list(rows), ["**harvest**", "static", "slow"])
        # On n only t counts, since slow lost accesses of u.
        self.assertEqual(rows["**harvest**"],
                         ["1.414", "1.030", "1.272", "2.000", "1", "2 of 3"])
        self.assertEqual(rows["static"], ["2.000", "1.000", "1.587", "4.000", "2", "2 of 3"])
        self.assertEqual(rows["slow"], ["4.000", "2.000", "3.175", "8.000", "0", "0 of 3"])
        self.assertTrue(text.endswith("accesses there: u on n."), text)

    def test_policies_have_regret_moves_and_stalls(self):
        text = study_tables.policies(sample(), ASKED)
        self.assertEqual(rows_of(text, "m")["**harvest**"],
                         ["1.414", "3.464", "300.0 %", "500.0 % (u)", "1 of 2", "50.0 %", "1.0 %"])
        self.assertEqual(rows_of(text, "n")["static"], ["1.000", "-", "-", "-", "1 of 1", "-", "-"])

    def test_traces_name_the_cheapest_and_how_far_the_default_is(self):
        text = study_tables.traces(sample(), ASKED)
        self.assertEqual(rows_of(text, "m")["u"],
                         ["2 GiB", "1.500", "static", "3.000", "6.000", "2.000", ""])
        self.assertEqual(rows_of(text, "n")["u"],
                         ["-", "-", "harvest and 1 more", "-", "-", "1.000", "1 of 3"])

    def test_how_much_of_the_experiment_is_there_is_said(self):
        self.assertIn("12 cells.", study_tables.how_many(sample(), ASKED))
        asked = {**ASKED, "traces": ["t", "u", "v"]}
        self.assertIn("12 cells of the 18 of the experiment.", study_tables.how_many(sample(), asked))

    def test_where_everybody_lost_accesses_there_is_no_cheapest(self):
        lost = study_cells.Study([cell("m", "t", "static", 1, lost=1)], "made up")
        for table in study_tables.TABLES.values():
            self.assertIsInstance(table(lost, ASKED), str)
        self.assertEqual(rows_of(study_tables.traces(lost, ASKED), "m")["t"][2], "-")


class Pages(unittest.TestCase):
    """Has a folder with the document to be written."""

    def setUp(self):
        owner = tempfile.TemporaryDirectory()
        self.addCleanup(owner.cleanup)
        self.root = pathlib.Path(owner.name)
        for folder in ("measurements", "results"):
            (self.root / "docs" / folder).mkdir(parents=True)
        self.pages = study.Pages(self.root)
        self.pages.document.write_text(DOCUMENT)


class Files(Pages):
    def test_what_is_kept_gives_the_same_tables_and_a_change_of_it_is_found(self):
        self.pages.write(sample(), ASKED)
        self.assertIn("made up. 2 machines, 2 traces", self.pages.document.read_text())
        self.assertIsNone(self.pages.differ(ASKED))
        kept = self.pages.table.read_text()
        self.assertEqual(kept.count("\n"), 2 + 12)
        self.pages.table.write_text(kept.replace("m,t,slow,2,4,", "m,t,slow,2,5,"))
        self.assertNotEqual(kept, self.pages.table.read_text())
        self.assertRegex(self.pages.differ(ASKED), r"study.md: line \d+: is \"\| slow +\| 4.000")

    def test_a_table_drawn_with_other_widths_is_the_same(self):
        self.pages.write(sample(), ASKED)
        text = self.pages.document.read_text()
        self.pages.document.write_text(text.replace("-----", "---").replace("  |", " |"))
        self.assertIsNone(self.pages.differ(ASKED))
        self.pages.document.write_text(text.replace("| static", "| statik"))
        self.assertIn("statik", self.pages.differ(ASKED))

    def test_text_around_the_tables_stays(self):
        self.pages.document.write_text(DOCUMENT.replace("# Study\n", "# Study\n\nIt says why.\n"))
        self.pages.write(sample(), ASKED)
        self.pages.write(sample(), ASKED)
        self.assertIn("# Study\n\nIt says why.\n\n<!-- study:begin made -->\n\nmade up.",
                      self.pages.document.read_text())

    def test_what_is_wrong_is_refused_by_file_line_and_reason(self):
        sample().write(self.pages.table)
        kept = self.pages.table.read_text()
        for piece, other, says in (
                ("# made up", "made up", "study.csv: line 1: does not say how"),
                ("cost_s,", "costs,", "study.csv: line 2: there is no column cost_s"),
                ("m,t,slow,2,4,", "m,t,slow,2,no,", "study.csv: line 5: .*no"),
                ("m,t,slow,2,4,", "m,t,slow,2,nan,", "study.csv: line 5: nan is not a number"),
                ("m,t,slow,2,4,", "m,t,slow,2,,", "study.csv: line 5: a cost of nothing"),
                ("m,t,slow,", "m,t,static,", "m, t: two cells of static")):
            with self.subTest(says):
                self.pages.table.write_text(kept.replace(piece, other, 1))
                with self.assertRaisesRegex(study_cells.StudyError, says):
                    study_cells.read_table(self.pages.table)
        self.pages.document.write_text("<!-- study:begin best -->\n<!-- study:end -->\n")
        with self.assertRaisesRegex(study_cells.StudyError, "study.md: there is no table best"):
            self.pages.written(sample(), ASKED)

    def test_a_folder_without_results_is_refused(self):
        with self.assertRaisesRegex(study_cells.StudyError, "results.csv"):
            study_cells.condense(self.root, "made up")
        (self.root / "results.csv").write_text("id,machine\nx,m\n")
        with self.assertRaisesRegex(study_cells.StudyError, "results.csv: is no table of results: .*bytes"):
            study_cells.condense(self.root, "made up")
        (self.root / "bounds").mkdir()
        (self.root / "bounds" / "x.json").write_text("{}")
        with self.assertRaisesRegex(study_cells.StudyError, "x.json: is no bound"):
            study_cells.condense(self.root, "made up")

    @unittest.skipUnless(live_plots.has_matplotlib(), "matplotlib is not installed")
    def test_the_same_study_draws_the_same_bytes(self):
        first, second = (study_plots.draw_all(sample(), self.root / name) for name in ("a", "b"))
        self.assertEqual([path.name for path in first], list(study_plots.FIGURES))
        for one, other in zip(first, second):
            self.assertEqual(one.read_bytes(), other.read_bytes())
            self.assertIn("harvest", one.read_text())


@unittest.skipUnless(PROGRAM, "vmart-lab was not given")
class Runs(Pages):
    def study(self, *words):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            status = study.main(["--root", str(self.root), "--experiment", str(self.experiment), *words])
        return status, said.getvalue()

    def setUp(self):
        super().setUp()
        self.experiment = self.root / "tiny.json"
        self.experiment.write_text(json.dumps(TINY))
        self.folder = self.root / "results"

    def test_one_command_makes_all_of_it_and_goes_on_where_it_stopped(self):
        words = ["--out", str(self.folder), "--vmart-lab", PROGRAM]
        self.assertEqual(self.study(*words)[0], 0)
        with (self.folder / "results.csv").open(newline="") as lines:
            rows = list(csv.DictReader(lines))
        kept = study_cells.read_table(self.pages.table)
        self.assertEqual([(each.trace, each.policy) for each in kept.cells],
                         [(row["trace"], row["policy"]) for row in rows])
        for each, row in zip(kept.cells, rows):
            self.assertAlmostEqual(each.cost_s / float(row["cost_s"]), 1, places=5)
            self.assertAlmostEqual(each.over_bound - 1, float(row["regret"]), places=4)
            self.assertIsNotNone(each.hbm_gib)
        self.assertEqual(self.study("--check"), (0, ""))
        text = self.pages.document.read_text()
        self.assertIn("4 cells.", text)
        next((self.folder / "cells").glob("*")).unlink()
        self.assertEqual(self.study(*words)[0], 0)
        self.assertEqual(self.pages.document.read_text(), text)
        self.assertEqual(self.study("--out", str(self.folder), "--tables-only")[0], 0)
        self.assertEqual(self.pages.document.read_text(), text)
        self.pages.document.write_text(text.replace("| static", "| statik"))
        status, said = self.study("--check")
        self.assertEqual((status, "statik" in said), (1, True))

    def test_the_study_has_every_policy_and_can_be_read(self):
        asked = json.loads(study.EXPERIMENT.read_text())
        documented = (study.ROOT / "docs" / "guide" / "policies.md").read_text().split("## The policies\n")[1]
        names = re.findall(r"^\| `(\w+)` \|", documented.split("\n## ")[0], re.MULTILINE)
        self.assertEqual(asked["policies"], sorted(names))
        self.assertIn(study_tables.DEFAULT, names)
        done = subprocess.run([PROGRAM, "run", str(study.EXPERIMENT), "--out", str(self.folder), "--list"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")
        self.assertEqual(len(done.stdout.splitlines()), study_tables.cells_of(asked))

    def test_a_run_that_fails_writes_nothing(self):
        self.experiment.write_text(json.dumps({**TINY, "policies": ["none"]}))
        status, said = self.study("--out", str(self.folder), "--vmart-lab", PROGRAM)
        self.assertEqual(status, 1)
        self.assertIn("exit status 1", said)
        self.assertEqual(self.pages.document.read_text(), DOCUMENT)
        self.assertFalse(self.pages.table.exists())
        status, said = self.study("--out", str(self.folder), "--vmart-lab", "/none")
        self.assertEqual((status, "/none is no program" in said), (1, True))


if __name__ == "__main__":
    unittest.main()
