#!/usr/bin/env python3
"""Goal: each table and figure of the study can be made anew by its name, and what differs from what is committed is found.
Method: made-up tables, worked out by hand; the committed ones; and, where `vmart-lab` is given, small experiments:
reproduce_test.py [VMART_LAB]."""

import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import benchmark
import comparing
import reproduce
import slicing_table
import study
import study_cells
import study_plots
import study_tables
from harness import plots
from study_test import DOCUMENT, PROGRAM, TINY, cell, sample

PAGES = study.Pages(study.ROOT)
TABLE = """| policy | mean | worst | worst | worse |
| - | - | - | - | - |
| `auto` | 0.892 | 1.000 | 1.001 | 0 of 12 |
| `gone` | 0.9 | 1.0 | 1.0 | 9 of 12 |
| `static` | 1.000 (0.9-1.1) | - | 33088 | 0 of 12 |
"""


def reproduced(*words):
    """The exit status, and what was said on either stream."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            status = reproduce.main([str(word) for word in words])
        except SystemExit as end:
            status = end.code
    return status, said.getvalue()


class InFolder(unittest.TestCase):
    def setUp(self):
        owner = tempfile.TemporaryDirectory()
        self.addCleanup(owner.cleanup)
        self.folder = pathlib.Path(owner.name)


class Comparing(InFolder):
    def differences(self, *changes, within=0.05):
        made = TABLE
        for here, there in changes:
            self.assertIn(here, made)
            made = made.replace(here, there)
        return list(comparing.table_differences(TABLE, made, ["auto"], within))

    def test_numbers_of_another_run_may_differ_by_a_share_and_a_unit_of_the_last_digit(self):
        self.assertEqual(self.differences(("0.892", "0.937")), [])
        self.assertEqual(self.differences(("0.892", "0.939")), ["`auto`: mean: is 0.939, should be 0.892"])
        self.assertEqual(self.differences(("33088", "34740")), [])
        self.assertEqual(self.differences(("33088", "34750")), ["`static`: worst (2): is 34750, should be 33088"])
        self.assertEqual(self.differences(("(0.9-1.1)", "(0.9-1.3)")), ["`static`: mean: is 1.000 (0.9-1.3), should be 1.000 (0.9-1.1)"])

    def test_counts_may_differ_by_one_and_words_not(self):
        self.assertEqual(self.differences(("1.001 | 0 of 12", "1.001 | 1 of 12")), [])
        self.assertEqual(self.differences(("1.001 | 0 of 12", "1.001 | 2 of 12")), ["`auto`: worse: is 2 of 12, should be 0 of 12"])
        self.assertEqual(self.differences(("| - | 33088", "| 1.0 | 33088")), ["`static`: worst: is 1.0, should be -"])

    def test_what_is_made_of_the_same_cells_has_the_same_numbers(self):
        self.assertEqual(self.differences(within=0), [])
        for change in (("0.892", "0.893"), ("1.001 | 0 of 12", "1.001 | 1 of 12")):
            self.assertEqual(len(self.differences(change, within=0)), 1)

    def test_a_row_may_be_missing_only_of_a_policy_that_is_no_longer_run(self):
        self.assertEqual(self.differences(("| `gone` | 0.9 | 1.0 | 1.0 | 9 of 12 |\n", "")), [])
        found = self.differences(("| `auto` | 0.892 | 1.000 | 1.001 | 0 of 12 |\n", ""))
        self.assertEqual(len(found), 4)
        self.assertEqual(found[0], "`auto`: mean: is missing, should be 0.892")
        self.assertEqual(comparing.retired(TABLE, ["auto"]), {"gone"})

    def test_a_cell_is_found_by_its_time_and_by_what_it_lost(self):
        kept, made = (sample().experiments["study"] for _ in range(2))
        made.cells[0].time_s *= 1.06
        made.cells[1].lost = 3
        made.cells[2].time_s *= 0.96
        found = list(comparing.cell_differences(kept, made))
        self.assertEqual(len(found), 2)
        self.assertRegex(found[0], r"static: takes 10.6 s, should take 10 s \(\+6.0%\)")
        self.assertRegex(found[1], "quick: accesses were lost in one of them only")

    def test_a_cell_may_be_missing_only_of_a_part(self):
        kept = sample().experiments["study"]
        made = study_cells.Experiment("study", kept.cells[:-1], "made up")
        self.assertEqual(list(comparing.cell_differences(kept, made, part=True)), [])
        self.assertRegex(list(comparing.cell_differences(kept, made))[0], "m ample, dlrm 2022, 1, quick: is missing")
        made = study_cells.Experiment("study", [each for each in kept.cells if each.policy == "static"], "made up")
        self.assertEqual(list(comparing.cell_differences(kept, made)), [])  # Of a policy that is no longer run.


    def test_a_drawing_is_found_by_its_texts_and_points(self):
        for folder, text, x in (("a", "0.65", 10), ("b", "0.65", 10.4), ("c", "0.66", 11)):
            (self.folder / folder).write_text(f'<svg xmlns="http://www.w3.org/2000/svg"><g><text>{text}</text><use x="{x}" y="2"/></g></svg>')
        of = [list(comparing.drawing_differences(self.folder / "a", self.folder / other)) for other in "ab"]
        self.assertEqual(of, [[], []])
        found = list(comparing.drawing_differences(self.folder / "a", self.folder / "c"))
        self.assertRegex(found[0], "says 0.66, should say 0.65")
        self.assertRegex(found[1], r"a point is at \(11.0, 2.0\), should be at \(10.0, 2.0\)")

    def test_the_tables_by_hand_are_made_as_they_stand_in_the_page(self):
        cells = [cell("disk", policy, time_s, loop="open") for policy, time_s in
                 (("static", 2.934), ("auto", 2.934), ("cost_benefit", 2.83), ("counter", 2.934))]
        made = study_tables.disk(study_cells.Experiment("blocks", cells, "made up"))
        self.assertEqual(list(comparing.entries(made).values()), ["2.934", "1.000", "0.965", "1.000"])
        text = PAGES.document.read_text(encoding="utf-8")
        for name, columns in ((reproduce.DISK, 6), (reproduce.SLICING, 5)):
            self.assertEqual(comparing.table_below(text, reproduce.HEADINGS[name]).splitlines()[0].count("|"), columns + 1)
        rows = {key[1] for key in comparing.entries(comparing.table_below(text, reproduce.HEADINGS[reproduce.SLICING]))}
        self.assertEqual(rows, {row[0] for row in slicing_table.ROWS})
        self.assertEqual(slicing_table.ratios_in("a.vtrace, 0.05 s: 9.5 s; static 1.0000  auto 0.9712\n"),
                         {"0.05 s": {"static": 1, "auto": 0.9712}})


class Committed(InFolder):
    def test_each_table_and_figure_of_the_page_has_a_name(self):
        text = PAGES.document.read_text(encoding="utf-8")
        named = set(re.findall(r"study:begin (\w+)", text)) - {"made"} | set(re.findall(r"images/(\w+)\.svg", text))
        tables = len(re.findall(r"^\|[^\n]*\n\| ?-", text, re.MULTILINE))
        self.assertEqual(named | set(reproduce.HEADINGS) | {reproduce.LEADERBOARD}, set(reproduce.TARGETS))
        # One a marker, two of `generated`, and those by hand.
        self.assertEqual(tables, len(re.findall("study:begin", text)) - 1 + 1 + len(reproduce.HEADINGS))
        status, said = reproduced()
        self.assertEqual(status, 0)
        for name in reproduce.TARGETS:
            self.assertRegex(said, rf"(?m)^{name} +([\d.]+|-)  ")

    def test_an_unknown_name_is_refused_with_those_that_are_known(self):
        status, said = reproduced("policys")
        self.assertEqual(status, 2)
        self.assertIn("policys: no such table or figure; known are policies, cells, study_real", said)

    def test_all_tables_are_made_of_the_committed_cells(self):
        names = [name for name, target in reproduce.TARGETS.items() if target.experiment in study.NAMES and not target.figure]
        status, said = reproduced(*names, "--out", self.folder, "--from", PAGES.table)
        self.assertEqual(status, 0, said)
        for name in names:
            self.assertEqual((self.folder / f"{name}.md").read_text(encoding="utf-8").strip(), PAGES.table_of(name))

    def test_another_time_of_one_cell_is_found_in_its_table(self):
        changed = self.folder / "study.csv"
        text = PAGES.table.read_text(encoding="utf-8")
        row = re.search(r"^study,h200x4 half,g10 VIT bs1280,real,1,auto,closed,([\d.]+),", text, re.MULTILINE)
        changed.write_text(text.replace(row[0], row[0].replace(row[1], str(2 * float(row[1])))), encoding="utf-8")
        status, said = reproduced("cells", "--out", self.folder, "--from", changed)
        self.assertEqual(status, 1)
        self.assertRegex(said, r"h200x4 half, g10 VIT bs1280: `auto`: is 1\.7\d\d, should be 0\.8\d\d")

    @unittest.skipUnless(plots.has_matplotlib(), "matplotlib is not installed")
    def test_the_drawn_figures_have_the_committed_numbers(self):
        status, said = reproduced("study_real", "study_generated", "--out", self.folder, "--from", PAGES.table)
        self.assertEqual(status, 0, said)
        changed = study_cells.read_table(PAGES.table)
        for name in study.NAMES:
            for cell in changed.experiments[name].cells:
                if cell.policy == "auto":
                    cell.time_s *= 1.1
        changed.write(self.folder / "study.csv")
        status, said = reproduced("study_real", "study_generated", "--out", self.folder, "--from", self.folder / "study.csv")
        self.assertEqual(status, 1)
        for wrong in (r"study_real.svg: says 1\.\d\d, should say 0\.\d\d", "study_generated.svg: a point is at"):
            self.assertTrue(any(re.search(wrong, line) for line in self.of_drawings(changed)), wrong)

    def of_drawings(self, changed):
        for path in study_plots.draw_all(changed, self.folder):
            yield from comparing.drawing_differences(PAGES.images / path.name, path)

    def test_the_leader_board_is_that_of_its_file(self):
        pages = benchmark.Pages(study.ROOT)
        self.assertEqual(reproduced("leaderboard", "--out", self.folder, "--from", pages.table)[0], 0)

    def test_the_package_finds_the_source_tree(self):
        command = [sys.executable, "-B", "-m", "vmart.lab", "reproduce", "--program", "vmart-lab"]
        done = subprocess.run(command, cwd=PAGES.images, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, "leaderboard" in done.stdout), (0, True), done.stderr)
        done = subprocess.run([*command, "--source", str(self.folder)], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, f"{self.folder} is not in vmart's source tree" in done.stderr), (1, True), done.stderr)


@unittest.skipUnless(PROGRAM, "vmart-lab was not given")
class Runs(InFolder):
    """On small experiments, whose study is written below the folder first."""

    def setUp(self):
        super().setUp()
        self.words = ["--root", self.folder, "--experiments", self.folder / "experiments", "--vmart-lab", PROGRAM]
        for name in ("docs/measurements", "docs/results", "experiments"):
            (self.folder / name).mkdir(parents=True)
        for name in study.NAMES:
            (self.folder / "experiments" / f"{name}.json").write_text(json.dumps(TINY))
        self.pages = study.Pages(self.folder)
        self.pages.document.write_text(DOCUMENT)
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(study.main([str(word) for word in (*self.words, "--out", self.folder / "first")]), 0)

    def test_a_table_and_a_figure_are_made_of_one_run(self):
        words = [*self.words, "--out", self.folder / "second", "--jobs", "1"]
        status, said = reproduced("generated", "study_generated", *words)
        self.assertEqual(status, 0 if plots.has_matplotlib() else os.EX_UNAVAILABLE, said)
        self.assertEqual(sorted(os.listdir(self.folder / "second" / "study_generated" / "cells")),
                         sorted(os.listdir(self.folder / "first" / "study_generated" / "cells")))
        text = self.pages.document.read_text()
        ratio = re.search(r"\| `cost_benefit` \| ([\d.]+)", text)
        self.pages.document.write_text(text.replace(ratio[0], ratio[0].replace(ratio[1], "9.9")))
        status, said = reproduced("generated", *words)
        self.assertEqual((status, "should be 9.9" in said), (1, True), said)

    def test_a_leader_board_is_run_compared_and_gets_a_further_row(self):
        manifest = self.folder / "tiny.json"
        manifest.write_text(json.dumps({
            "benchmark": "tiny 1", "salt": "s", "families": {"all": ["drift", "round"]}, "experiment": TINY,
            "sums": {"inputs": {}, "machines": {}, "traces": {}}}))
        pages = benchmark.Pages(self.folder)
        pages.document.write_text("<!-- study:begin leaderboard -->\n<!-- study:end -->")
        first = ["--manifest", manifest, "--root", self.folder, "--out", self.folder / "board", "--vmart-lab", PROGRAM]
        self.assertEqual(benchmark.main([str(word) for word in first]), 0)
        words = [*self.words, "--benchmark", manifest, "--out", self.folder / "second"]
        status, said = reproduced("leaderboard", *words, "--policy", "counter")
        self.assertEqual((status, "| `counter`" in said), (0, True), said)
        rows = benchmark.read_csv(self.folder / "second" / "leaderboard.csv")[1]
        self.assertEqual(sorted(row["policy"] for row in rows), ["cost_benefit", "counter", "static"])
        pages.document.write_text(pages.document.read_text().replace("| 1.000 ", "| 3.000 "))
        self.assertEqual(reproduced("leaderboard", *words, "--policy", "counter")[0], 1)

    def test_slices_are_compared_on_both_machines(self):
        rows = [("Azure", "azure", "azure/AzureLLMInferenceTrace_conv.csv.gz", {"requests": 12, "closed": 0})]
        with contextlib.redirect_stderr(io.StringIO()):
            found = comparing.entries(slicing_table.slicing_table(PROGRAM, self.folder / "slicing", rows))
        self.assertEqual(len(found), 4)
        for value in found.values():
            self.assertRegex(value, r"^\d\.\d{3} / \d\.\d{3} / \d\.\d{3}$")

    def test_a_smoke_run_compares_cells_with_those_that_are_kept(self):
        shown = benchmark.Pages(self.folder)
        shown.table.write_bytes(benchmark.Pages(study.ROOT).table.read_bytes())
        shown.document.write_bytes(benchmark.Pages(study.ROOT).document.read_bytes())
        words = ["--smoke", *self.words, "--out", self.folder / "second"]
        status, said = reproduced(*words)
        self.assertEqual(status, 0, said)
        for name in study.NAMES:
            self.assertIn(f"4 of 4 cells of {name}: as committed", said)
        kept = self.pages.kept()
        for cell in kept.experiments[study_tables.WHOLE].cells:
            cell.time_s *= 3
        kept.write(self.pages.table)
        status, said = reproduced(*words)
        self.assertEqual(status, 1)
        self.assertIn("4 of 4 cells of study_whole: 4 DIFFERENCES", said)


if __name__ == "__main__":
    unittest.main()
