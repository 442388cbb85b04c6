#!/usr/bin/env python3
"""Runs a small experiment with the real `vmart-lab`, and reads and reports what it leaves:
real_results_test.py VMART_LAB MACHINE_FILE. Exits with 77, which ctest shows as skipped, where pandas or
plotly is missing."""

import json
import os
import pathlib
import sys
import unittest
import unittest.mock

import page_checks
import small_experiment

SKIPPED = 77
MACHINE = pathlib.Path(sys.argv.pop())
PROGRAM = sys.argv.pop()
try:
    import pandas  # noqa: F401
    import plotly  # noqa: F401
except ImportError as error:
    print(f"SKIPPED: {error}", file=sys.stderr)
    sys.exit(SKIPPED)

from vmart import lab
from vmart.lab import sweep_task
from vmart.lab.experiment_files import experiment_files
from vmart.lab.failures import cells_count
from vmart.lab.report import write_report


class RealResults(small_experiment.SmallExperiment):
    program, machine = PROGRAM, MACHINE

    def test_frames_are_the_table(self):
        results = lab.load(self.folder)
        self.assertEqual(len(results.ids), small_experiment.CELLS)
        self.assertEqual(cells_count(results.experiment), small_experiment.CELLS)
        page_checks.check_frame(self, self.folder, results.cells)

    def test_windows_routes_and_places_add_up_to_the_metrics(self):
        results = lab.load(self.folder)
        cells = results.cells.set_index("id")
        self.assertGreater(cells["bytes_moved"].max(), 0)
        moved = results.routes.groupby("id")["bytes"].sum().reindex(cells.index, fill_value=0)
        in_windows = results.windows.groupby("id")[["bytes_moved", "access_s"]].sum()
        for identity, row in cells.iterrows():
            self.assertEqual(moved[identity], row["bytes_moved"])
            self.assertEqual(in_windows.loc[identity, "bytes_moved"], row["bytes_moved"])
            self.assertAlmostEqual(in_windows.loc[identity, "access_s"] / row["access_s"], 1, places=9)
        self.assertEqual(set(results.links["id"]), set(cells.index))
        self.assertEqual(len(results.resident), len(results.windows))
        self.assertEqual(set(results.marks["text"]), {"phase 1", "phase 2", "phase 3"})

    def test_the_page_has_the_numbers_of_the_table(self):
        write_report(self.folder, say=lambda _: None)
        page = page_checks.check_page(self, self.folder)
        self.assertEqual(len(page.scenarios), 4)
        self.assertIn("Nothing: 24 cells finished", page.text)
        named = {figure.partition("-")[0] for figure in page.figures}
        self.assertEqual(named, {"compared", "slowdown", "time", "moves", "links"})

    def test_a_cell_run_elsewhere_from_the_shipped_files_is_the_same(self):
        path, files = experiment_files(self.experiment, PROGRAM)
        self.assertEqual(sorted(files), ["asked/experiment.json", "asked/machines/two.json", "own.vtrace"])
        for index, identity in enumerate(lab.load(self.folder).ids[::5]):
            # Two of them in one folder, as tasks of one machine.
            data = sweep_task.run_cell(self.top / f"elsewhere{index // 2}", lambda: files, path, PROGRAM,
                                       identity)
            self.assertEqual(data, (self.folder / "cells" / f"{identity}.json").read_bytes())

    def test_what_a_trace_is_made_of_is_shipped_whole(self):
        nets = self.top / "nets"
        nets.mkdir()
        (nets / "net_kernels.jsonl").write_text('{"us":1000,"in":[1],"out":[2]}\n')
        (nets / "net_tensors.csv").write_text("tensor,is_weight,bytes\n1,1,4096\n2,0,8192\n")
        trace = {"name": "net", "convert": "g10", "input": "../nets/net_kernels.jsonl",
                 "parameters": {"closed": 0}}
        experiment = {"experiment": "nets", "machines": ["h200x2"], "policies": ["stay_put"], "static": False, "traces": [trace]}
        asked = self.top / "converted" / "experiment.json"
        asked.parent.mkdir()
        asked.write_text(json.dumps(experiment))
        path, files = experiment_files(asked, PROGRAM)
        self.assertEqual(sorted(files),
                         ["converted/experiment.json", "nets/net_kernels.jsonl", "nets/net_tensors.csv"])
        here = self.top / "nets_here"
        done = small_experiment.run(PROGRAM, asked, here)
        self.assertEqual(done.returncode, 0, done.stderr)
        (identity,) = lab.load(here).ids
        data = sweep_task.run_cell(self.top / "nets_elsewhere", lambda: files, path, PROGRAM, identity)
        self.assertEqual(data, (here / "cells" / f"{identity}.json").read_bytes())
        (nets / "net_tensors.csv").unlink()
        with self.assertRaisesRegex(lab.ExperimentError, "with NAME_tensors.csv in the same folder"):
            experiment_files(asked, PROGRAM)

    def test_what_is_named_by_an_absolute_path_is_not_shipped(self):
        own = {"name": "own", "file": str(self.top / "own.vtrace")}
        asked = self.top / "absolute.json"
        asked.write_text(json.dumps({"experiment": "absolute", "machines": ["h200x2"],
                                     "policies": ["stay_put"], "traces": [own]}))
        self.assertEqual(list(experiment_files(asked, PROGRAM)[1]), ["absolute.json"])

    def test_a_cell_that_fails_elsewhere_says_why(self):
        path, files = experiment_files(self.experiment, PROGRAM)
        with self.assertRaisesRegex(sweep_task.CellFailed, "has no cell .nothing_such"):
            sweep_task.run_cell(self.top / "failing", lambda: files, path, PROGRAM, "nothing_such")
        nowhere = unittest.mock.patch.dict(os.environ, PATH="")
        with nowhere, self.assertRaisesRegex(sweep_task.CellFailed, "neither /none nor"):
            sweep_task.run_cell(self.top / "failing", lambda: files, path, "/none", "x")
        sweep_task.clear(self.top / "failing")
        self.assertFalse((self.top / "failing").exists())


if __name__ == "__main__":
    unittest.main()
