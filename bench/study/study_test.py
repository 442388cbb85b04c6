#!/usr/bin/env python3
"""Tests the study: what its tables say of made-up cells, worked out by hand; how what is wrong is refused; and all
of it on small experiments, where `vmart-lab` is given: study_test.py [VMART_LAB]."""

import contextlib
import csv
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import study
import study_cells
import study_plots
import study_tables
from harness.plots import has_matplotlib
from vmart.lab.kinds import is_drawn

PROGRAM = sys.argv.pop() if len(sys.argv) > 1 and pathlib.Path(sys.argv[-1]).is_file() else None
DOCUMENT = "# Study\n" + "".join(f"\n<!-- study:begin {name} -->\n<!-- study:end -->\n"
                                 for name in study_tables.TABLES)
TUNED, TEST = "g10 VIT bs1280", "dlrm 2022"  # By their names.
TINY = {
    "experiment": "tiny",
    "machines": [{"name": "half", "machine": "test-2", "hbm_share": 0.5}],
    "traces": [
        {"name": "drift", "generate": "zipf-drift", "parameters": {
            "gpus": 2, "object_bytes": 1048576, "length_s": 0.3, "objects": 30, "accesses_s": 300}},
        {"name": "round", "generate": "rebalance", "parameters": {
            "gpus": 2, "chunks": 4, "chunk_bytes": 1048576, "launch_bytes": 1048576}}],
    "policies": ["static", "cost_benefit"], "bounds": True,
}


def cell(trace, policy, time_s, machine="m half", kind="real", seed="1", loop="closed", **others):
    row = dict.fromkeys(study_cells.NAMES + study_cells.NUMBERS, "")
    row.update(machine=machine, trace=trace, kind=kind, seed=seed, policy=policy, loop=loop,
               time_s=time_s, lost=0)
    return study_cells.Cell({**row, **others})


def real():
    """`quick` takes 0.5 and 1.1 of the base, and loses accesses in the third place."""
    return [cell(TUNED, "static", 10, over_bound=1.25), cell(TUNED, "quick", 5, over_bound=1, moved=0.5),
            cell(TEST, "static", 20, over_bound=1.5, loop="open"), cell(TEST, "quick", 22, over_bound=1.6),
            cell(TEST, "static", 4, machine="m ample"), cell(TEST, "quick", 1, machine="m ample", lost=3)]


def drawn():
    return [cell("drift", policy, time_s, kind="synthetic", seed=str(seed), loop="open")
            for policy, of_seeds in (("static", (10, 10)), ("quick", (2, 8)))
            for seed, time_s in enumerate(of_seeds, 1)]


def sample():
    return study_cells.Study([study_cells.Experiment("study", real(), "made up"),
                              study_cells.Experiment("study_generated", drawn(), "drawn"),
                              study_cells.Experiment("study_whole", real(), "made up too"),
                              study_cells.Experiment("study_machines", real(), "made up as well")])


def rows_of(table):
    """The cells of a markdown table's rows, by the first one."""
    rows = [[each.strip() for each in line[1:-1].split("|")]
            for line in table.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in rows[2:]}


class Tables(unittest.TestCase):
    def test_hold_each_policy_against_the_base_with_the_sets_apart(self):
        rows = rows_of(study_tables.TABLES["policies"](sample()))
        self.assertEqual(list(rows), ["`quick`", "`static`"])
        # sqrt(0.5 * 1.1); of the test set only half counts, since accesses were lost with ample HBM.
        self.assertEqual(rows["`quick`"],
                         ["0.742", "0 of 1", "0.500", "1 of 1", "1.100", "1", "1.600", "-", "50 %", "-"])
        self.assertEqual(rows["`static`"][:4], ["1.000", "0 of 1", "1.000", "0 of 1"])  # With ample HBM nothing else is left.

    def test_show_the_base_beside_the_policies_in_each_cell(self):
        rows = [line.split("|")[1:-1] for line in study_tables.TABLES["cells"](sample()).splitlines()[2:]]
        self.assertEqual([[each.strip() for each in row] for row in rows],
                         [["m half", TUNED, "tuned", "closed", "10", "1.250", "0.500"],
                          ["m half", TEST, "test", "open", "20", "1.500", "1.100"],
                          ["m ample", TEST, "test", "closed", "4", "-", "-"]])

    def test_show_the_spread_of_seeds(self):
        rows = rows_of(study_tables.TABLES["generated"](sample()))
        self.assertEqual(rows["`quick`"], ["0.400 (0.200-0.800)"])
        self.assertEqual(rows["`static`"], ["1.000 (1.000-1.000)"])

    def test_say_how_much_there_is_and_what_lost_accesses(self):
        text = study_tables.TABLES["made"](sample())
        self.assertIn("- made up: 2 machines, 2 traces, 2 policies, 1 seed, 6 cells. 1 cells lost accesses", text)
        self.assertIn("- drawn: 1 machine, 1 trace, 2 policies, 2 seeds, 4 cells.\n", text)

    def test_are_drawn_where_nobody_has_a_base(self):
        alone = study_cells.Study(study_cells.Experiment(name, [cell(TUNED, "quick", 1)], "x")
                                  for name in study.NAMES)
        for table in study_tables.TABLES.values():
            self.assertIsInstance(table(alone), str)


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
        self.pages.write(sample())
        self.assertIsNone(self.pages.differ())
        kept = self.pages.table.read_text()
        self.assertEqual(kept.count("\n"), 4 + 1 + 22)
        changed = kept.replace(f"{TUNED},real,1,quick,closed,5,", f"{TUNED},real,1,quick,closed,6,", 1)
        self.assertNotEqual(kept, changed)
        self.pages.table.write_text(changed)
        self.assertRegex(self.pages.differ(), r"study.md: line \d+: is \"\| `quick` +\| 0.742")

    def test_an_experiment_made_anew_replaces_its_own_cells_alone(self):
        self.pages.write(sample())
        again = study_cells.Experiment("study", real()[:2], "made again")
        self.pages.write(self.pages.kept().replaced(again))
        kept = study_cells.read_table(self.pages.table).experiments
        self.assertEqual([(each.made, len(each.cells)) for each in kept.values()],
                         [("made again", 2), ("drawn", 4), ("made up too", 6), ("made up as well", 6)])

    def test_text_around_the_tables_stays(self):
        self.pages.document.write_text(DOCUMENT.replace("# Study\n", "# Study\n\nIt says why.\n"))
        self.pages.write(sample())
        self.pages.write(sample())
        self.assertIn("# Study\n\nIt says why.\n\n<!-- study:begin made -->\n\n- made up:",
                      self.pages.document.read_text())

    def test_what_is_wrong_is_refused_by_file_line_and_reason(self):
        sample().write(self.pages.table)
        kept = self.pages.table.read_text()
        row = f"{TUNED},real,1,quick,closed,5,"
        for piece, other, says in (
                ("# study: ", "study ", "study.csv: line 1: does not say how"),
                ("time_s,", "times,", "study.csv: line 5: there is no column time_s"),
                (row, row.replace("5,", "no,"), "study.csv: line 7: .*no"),
                (row, row.replace("5,", "nan,"), "study.csv: line 7: nan is not a number"),
                (row, row.replace("5,", ","), "study.csv: line 7: a time of nothing"),
                (row, row.replace("real", "odd"), "study.csv: line 7: a trace is real or synthetic, not odd"),
                ("# study_whole: made up too\n", "", "says how study, study_generated, study_machines was made"),
                (row, row.replace("quick", "static"), f"m half, {TUNED}, 1: two cells of static")):
            with self.subTest(says):
                self.pages.table.write_text(kept.replace(piece, other, 1))
                with self.assertRaisesRegex(study_cells.StudyError, says):
                    study_cells.read_table(self.pages.table)
        self.pages.document.write_text("<!-- study:begin best -->\n<!-- study:end -->\n")
        with self.assertRaisesRegex(study_cells.StudyError, "study.md: there is no table best"):
            self.pages.written(sample())
        self.pages.document.write_text(DOCUMENT)
        with self.assertRaisesRegex(study_cells.StudyError, "study.csv: has no cells of 'study"):
            self.pages.written(study_cells.Study([]))

    def test_a_folder_without_results_is_refused(self):
        with self.assertRaisesRegex(study_cells.StudyError, "results.csv"):
            study_cells.condense("study", self.root, "made up")
        (self.root / "results.csv").write_text("id,machine\nx,m\n")
        with self.assertRaisesRegex(study_cells.StudyError, "results.csv: is no table of results: .*regret"):
            study_cells.condense("study", self.root, "made up")

    @unittest.skipUnless(has_matplotlib(), "matplotlib is not installed")
    def test_the_same_study_draws_the_same_bytes(self):
        first, second = (study_plots.draw_all(sample(), self.root / name) for name in ("a", "b"))
        self.assertEqual([path.name for path in first], list(study_plots.FIGURES))
        for one, other in zip(first, second):
            self.assertEqual(one.read_bytes(), other.read_bytes())
            self.assertIn("quick", one.read_text())


@unittest.skipUnless(PROGRAM, "vmart-lab was not given")
class Runs(Pages):
    def study(self, *words):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            status = study.main(["--root", str(self.root), "--experiments", str(self.experiments), *words])
        return status, said.getvalue()

    def setUp(self):
        super().setUp()
        self.experiments = self.root / "experiments"
        self.experiments.mkdir()
        for name in study.NAMES:
            (self.experiments / f"{name}.json").write_text(json.dumps(TINY))
        self.folder = self.root / "results"

    def test_one_command_makes_all_of_it_and_goes_on_where_it_stopped(self):
        words = ["--out", str(self.folder), "--vmart-lab", PROGRAM]
        self.assertEqual(self.study(*words)[0], 0)
        with (self.folder / "study" / "results.csv").open(newline="") as lines:
            rows = list(csv.DictReader(lines))
        kept = study_cells.read_table(self.pages.table).experiments["study"]
        self.assertEqual([(each.trace, each.policy) for each in kept.cells],
                         [(row["trace"], row["policy"]) for row in rows])
        for each, row in zip(kept.cells, rows):
            self.assertEqual(each.loop, "open")
            self.assertAlmostEqual(each.time_s / float(row["cost_s"]), 1, places=5)
            self.assertAlmostEqual(each.over_bound - 1, float(row["regret"]), places=4)
        self.assertEqual(self.study("--check"), (0, ""))
        text = self.pages.document.read_text()
        self.assertIn("4 cells.", text)
        next((self.folder / "study" / "cells").glob("*")).unlink()
        self.assertEqual(self.study(*words)[0], 0)
        self.assertEqual(self.pages.document.read_text(), text)
        self.assertEqual(self.study("--out", str(self.folder), "--tables-only", "--only", "study")[0], 0)
        self.assertEqual(self.pages.document.read_text(), text)
        self.pages.document.write_text(text.replace("| `static`", "| `statik`"))
        status, said = self.study("--check")
        self.assertEqual((status, "statik" in said), (1, True))

    def test_a_policy_that_has_changed_is_run_alone(self):
        words = ["--vmart-lab", PROGRAM, "--made", "new", "--policy", "cost_benefit"]
        self.assertEqual(self.study("--out", str(self.folder), "--vmart-lab", PROGRAM, "--made", "old")[0], 0)
        kept = study_cells.read_table(self.pages.table)
        for cell in kept.experiments["study"].cells:  # As if all had taken longer when it was kept.
            cell.time_s *= 2
        kept.write(self.pages.table)
        again = self.root / "again"
        self.assertEqual(self.study("--out", str(again), *words, "--only", "study")[0], 0)
        self.assertEqual(len(list((again / "study" / "cells").glob("*"))), 2)
        found = study_cells.read_table(self.pages.table)
        self.assertEqual(found.experiments["study"].made, "`bench/experiments/study.json`, commit `old`, and of "
                                                          "`cost_benefit` commit `new`")
        for old, new in zip(kept.experiments["study"].cells, found.experiments["study"].cells):
            factor = 2 if new.policy == "cost_benefit" else 1
            self.assertEqual(old.place, new.place)
            self.assertAlmostEqual(old.time_s / new.time_s, factor, places=4)
            self.assertAlmostEqual(old.over_bound / new.over_bound, factor, places=4)
        shutil.rmtree(again)
        status, said = self.study("--out", str(again), *words[:-1], "none", "--only", "study")
        self.assertEqual((status, "exit status 1" in said), (1, True))

    def test_the_experiments_have_every_policy_and_can_be_read(self):
        documented = (study.ROOT / "docs" / "guide" / "policies.md").read_text().split("## The policies\n")[1]
        names = re.findall(r"^\| `(\w+)` \|", documented.split("\n## ")[0], re.MULTILINE)
        for name in study.NAMES:
            path = study.ROOT / "bench" / "experiments" / f"{name}.json"
            asked = json.loads(path.read_text())
            if name in (study_tables.POLICIES, study_tables.GENERATED):
                self.assertEqual(sorted(asked["policies"]), sorted(set(names)))
            done = subprocess.run([PROGRAM, "run", str(path), "--out", str(self.folder), "--list"],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.stderr, "")
            seeds = len(asked.get("seeds", [1]))
            traces = sum(seeds if is_drawn(trace) else 1 for trace in asked["traces"])
            self.assertEqual(len(done.stdout.splitlines()), len(asked["machines"]) * traces * len(asked["policies"]))

    def test_a_run_that_fails_writes_nothing(self):
        for name in study.NAMES:
            (self.experiments / f"{name}.json").write_text(json.dumps({**TINY, "policies": ["none"]}))
        status, said = self.study("--out", str(self.folder), "--vmart-lab", PROGRAM)
        self.assertEqual(status, 1)
        self.assertIn("exit status 1", said)
        self.assertEqual(self.pages.document.read_text(), DOCUMENT)
        self.assertFalse(self.pages.table.exists())
        status, said = self.study("--out", str(self.folder), "--vmart-lab", "/none")
        self.assertEqual((status, "/none is no program" in said), (1, True))


if __name__ == "__main__":
    unittest.main()
