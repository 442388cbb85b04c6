#!/usr/bin/env python3
"""Reads made-up result folders and spoils them file by file. Exits with 77, which ctest shows as
skipped, where pandas is missing."""

import json
import math
import pathlib
import pickle
import sys
import tempfile
import unittest

import made_folder
import page_checks

SKIPPED = 77
try:
    import pandas  # noqa: F401
except ImportError:
    print("SKIPPED: pandas is not installed", file=sys.stderr)
    sys.exit(SKIPPED)

from vmart import lab
from vmart.lab.spread import mean_and_half, t_point


class WithFolder(unittest.TestCase):
    def setUp(self):
        owner = tempfile.TemporaryDirectory()
        self.addCleanup(owner.cleanup)
        self.folder = pathlib.Path(owner.name) / "made"
        self.cells = made_folder.write_folder(self.folder, windows=20)

    def path(self, number=0):
        return self.folder / "cells" / f"{self.cells[number]['cell']['id']}.json"


class Frames(WithFolder):
    def test_cells_are_those_of_the_table_in_its_order_with_its_numbers(self):
        frame = lab.load(self.folder).cells
        self.assertEqual(list(frame["id"]), [cell["cell"]["id"] for cell in self.cells])
        page_checks.check_frame(self, self.folder, frame)
        self.assertEqual(set(frame["bound_kind"]), {"relaxed"})

    def test_a_cell_that_the_table_does_not_name_comes_last(self):
        (self.folder / "results.csv").unlink()
        ids = lab.load(self.folder).ids
        self.assertEqual(ids, sorted(cell["cell"]["id"] for cell in self.cells))

    def test_what_the_table_names_and_is_not_there_is_unfinished(self):
        self.path(2).unlink()
        results = lab.load(self.folder)
        self.assertEqual(results.unfinished, [self.cells[2]["cell"]["id"]])
        self.assertEqual(len(results.cells), len(self.cells) - 1)

    def test_windows_carry_seconds_since_the_trace_began_and_their_slowdown(self):
        frame = lab.load(self.folder).windows
        self.assertEqual(len(frame), 20 * len(self.cells))
        self.assertAlmostEqual(frame["end_s"].max(), 2.0)
        first = self.cells[0]["report"]["windows"][0]
        self.assertEqual(frame["slowdown"][0], first["access_s"] / first["local_s"])

    def test_a_window_without_accesses_has_no_slowdown(self):
        self.cells[0]["report"]["windows"][3].update(access_s=0, local_s=0)
        made_folder.write_cell(self.folder, self.cells[0])
        self.assertTrue(math.isnan(lab.load(self.folder).windows["slowdown"][3]))

    def test_places_routes_links_and_marks(self):
        results = lab.load(self.folder)
        self.assertEqual(list(results.resident.columns), ["id", "window", "gpu(0)", "gpu(1)", "host(0)"])
        self.assertEqual(results.resident["host(0)"][7], self.cells[0]["report"]["windows"][7]["resident"][2])
        self.assertEqual(set(zip(results.routes["source"], results.routes["target"])),
                         {("gpu(0)", "host(0)"), ("host(0)", "gpu(1)")})
        self.assertEqual(len(results.links), 3 * len(self.cells))
        self.assertEqual(list(results.marks["time_s"]), [1.0] * len(self.cells))

    def test_devices_have_their_shares_and_a_cell_without_accesses_has_none(self):
        self.cells[1]["report"]["devices"] = [{"accesses": 0, "bytes": 0}] * 2
        made_folder.write_cell(self.folder, self.cells[1])
        frame = lab.load(self.folder).devices
        self.assertEqual(list(frame["device"][:2]), ["gpu(0)", "gpu(1)"])
        self.assertEqual(list(frame["accesses_share"][:2]), [10 / 21, 11 / 21])
        self.assertEqual(list(frame["bytes_share"][:2]), [0.5, 0.5])
        self.assertTrue(frame["accesses_share"][2:4].isna().all())

    def test_what_the_results_were_made_from(self):
        frame = lab.load(self.folder).made_from
        self.assertEqual(list(frame.columns), ["trace", "seed", "trace_sum", "version"])
        self.assertEqual(set(frame["version"]), {"0.1.0"})

    def test_an_empty_folder_has_empty_frames(self):
        for path in (self.folder / "cells").iterdir():
            path.unlink()
        results = lab.load(self.folder)
        self.assertEqual([len(frame) for frame in (results.cells, results.summary, results.windows,
                                                   results.devices)], [0, 0, 0, 0])


class Summary(WithFolder):
    def test_the_mean_over_seeds_with_students_half_width(self):
        row = lab.load(self.folder).summary.set_index("policy").loc["cost_benefit"]
        self.assertEqual(row["seeds"], 3)
        self.assertAlmostEqual(row["cost_s_mean"], 11.5)
        self.assertAlmostEqual(row["cost_s_half"], 4.3027 * 0.25 / math.sqrt(3))

    def test_a_metric_that_some_seeds_lack_says_how_many_have_it(self):
        self.cells[3]["metrics"]["rest_s"] = None
        made_folder.write_cell(self.folder, self.cells[3])
        summary = lab.load(self.folder).summary.set_index("policy")
        self.assertEqual(summary.loc["cost_benefit", "rest_s_count"], 2)
        self.assertEqual(summary.loc["stay_put", "rest_s_count"], 0)
        self.assertTrue(math.isnan(summary.loc["stay_put", "rest_s_mean"]))

    def test_one_number_has_no_half_width(self):
        mean, half = mean_and_half([3.0, math.nan])
        self.assertEqual(mean, 3.0)
        self.assertTrue(math.isnan(half))

    def test_students_points_go_over_into_the_normal_ones(self):
        self.assertAlmostEqual(t_point(31), 2.0395, places=3)
        self.assertAlmostEqual(t_point(120), 1.9799, places=3)
        points = [t_point(freedom) for freedom in range(1, 200)]
        self.assertEqual(points, sorted(points, reverse=True))


class Garbage(WithFolder):
    def refused(self, reason, path=None):
        with self.assertRaises(lab.ResultError) as caught:
            results = lab.load(self.folder)
            for name in ("cells", "windows", "resident", "routes", "marks"):
                getattr(results, name)
        self.assertEqual(caught.exception.path, str(path or self.path()))
        self.assertIn(reason, str(caught.exception))
        self.assertEqual(str(pickle.loads(pickle.dumps(caught.exception))), str(caught.exception))

    def spoiled(self, change, reason):
        cell = json.loads(self.path().read_text())
        change(cell)
        self.path().write_text(json.dumps(cell))
        self.refused(reason)

    def test_a_folder_or_experiment_that_is_not_there(self):
        self.folder.joinpath("experiment.json").unlink()
        self.refused("No such file", self.folder / "experiment.json")
        with self.assertRaisesRegex(lab.ResultError, "no such folder"):
            lab.load(self.folder / "none")

    def test_a_device_that_says_nothing(self):
        self.spoiled(lambda cell: cell["report"].update(devices=[{"bytes": 1}]), "what device 0 did")

    def test_no_json(self):
        for text, reason in (("", "line 1"), ("{", "line 1"), ("[]", "no JSON object"),
                             ('{"cell": NaN}', "NaN is not a JSON number"), ("[" * 100000, "recursion")):
            self.path().write_text(text)
            self.refused(reason)
        self.path().write_bytes(b"\xff\xfe")
        self.refused("no text")

    def test_a_file_under_another_name(self):
        self.spoiled(lambda cell: cell["cell"].update(id="x"), 'is the cell "x"')

    def test_parts_of_the_wrong_kind(self):
        for part, value, reason in (("cell", 1, '"cell" is no object'),
                                    ("metrics", [], '"metrics" is no object'),
                                    ("report", None, '"report" is no object'),
                                    ("bound", 3, '"bound" is neither'), ("regret", "x", '"regret"')):
            self.cells[0] = made_folder.write_folder(self.folder / part, windows=1)[0]
            spoiled = {**self.cells[0], part: value}
            self.path().write_text(json.dumps(spoiled))
            self.refused(reason)

    def test_numbers_that_are_none(self):
        self.spoiled(lambda cell: cell["metrics"].update(cost_s="1"), '"metrics.cost_s"')
        self.spoiled(lambda cell: cell["metrics"].update(cost_s=True), '"metrics.cost_s"')
        self.spoiled(lambda cell: cell["metrics"].update(cost_s=1, links={"a": None}), '"links.a"')

    def test_metrics_that_are_missing(self):
        self.spoiled(lambda cell: cell["metrics"].pop("rest_s"), '"metrics.rest_s" is missing')

    def test_reports_whose_parts_do_not_fit(self):
        self.spoiled(lambda cell: cell["report"]["windows"][4].update(resident=[1]), '"places"')
        self.spoiled(lambda cell: cell["report"].update(windows=[1]), '"report.windows"')
        self.spoiled(lambda cell: cell["report"].update(windows=[], bytes_by_route={"a": 1}), "no route")
        self.spoiled(lambda cell: cell["report"].update(bytes_by_route={}, marks=[{}]), '"marks"')
        self.spoiled(lambda cell: cell["report"].pop("window_ns"), '"report.window_ns"')

    def test_a_table_that_is_none(self):
        table = self.folder / "results.csv"
        table.write_text("a,b\n1,2\n")
        self.refused('no column "id"', table)
        table.write_bytes(b"id\n\xff\n")
        self.refused("no table", table)


if __name__ == "__main__":
    unittest.main()
