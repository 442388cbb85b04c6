#!/usr/bin/env python3
"""Writes the pages of made-up result folders and reads them again. Exits with 77, which ctest shows as
skipped, where pandas or plotly is missing."""

import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

import made_folder
import page_checks

SKIPPED = 77
try:
    import numpy
    import pandas
    import plotly  # noqa: F401
except ImportError as error:
    print(f"SKIPPED: {error}", file=sys.stderr)
    sys.exit(SKIPPED)

from vmart import lab
from vmart.lab import downsampling, failures, report, shown
from vmart.lab.__main__ import main
from vmart.lab.standings import all_standings

SCENARIO = "drift on h200x2, router hash"


def quiet(_):
    pass


class WithFolder(unittest.TestCase):
    def setUp(self):
        owner = tempfile.TemporaryDirectory()
        self.addCleanup(owner.cleanup)
        self.folder = pathlib.Path(owner.name) / "made"

    def page(self, **options):
        report.write_report(self.folder, say=quiet, **options)
        return page_checks.check_page(self, self.folder)


class Pages(WithFolder):
    def test_the_table_has_the_numbers_of_the_results_and_the_cheapest_first(self):
        made_folder.write_folder(self.folder)
        page = self.page()
        self.assertEqual([policy for _, policy in page.policy_order if policy],
                         list(made_folder.POLICIES))
        self.assertIn((SCENARIO, "stay_put", "cost_s"), page.best)
        self.assertNotIn((SCENARIO, "cost_benefit", "cost_s"), page.best)
        self.assertIn("regret over relaxed bound", page.text)
        self.assertIn("No policy costs less than 9.500 s (relaxed bound); the best plan that is known costs "
                      "9.750 s", page.text)

    def test_a_policy_that_lost_accesses_is_last_and_nowhere_best(self):
        cells = made_folder.write_folder(self.folder)
        for cell in cells:
            if cell["metrics"]["accesses_lost"]:
                cell["metrics"]["cost_s"] = 1.0
                made_folder.write_cell(self.folder, cell)
        made_folder.write_table(self.folder, cells)
        page = self.page()
        lossy = made_folder.POLICIES[3]
        self.assertEqual(page.policy_order[-1], (SCENARIO, lossy))
        self.assertFalse(any(policy == lossy for _, policy, _ in page.best))

    def test_the_same_folder_gives_the_same_bytes(self):
        made_folder.write_folder(self.folder, windows=50)
        self.page()
        first = (self.folder / "report.html").read_bytes()
        self.page()
        self.assertEqual(first, (self.folder / "report.html").read_bytes())

    def test_without_bounds_the_bars_are_costs(self):
        made_folder.write_folder(self.folder, bound=False, seeds=(4,), windows=50)
        page = self.page()
        self.assertIn("no bounds, so there is no regret", page.text)
        bars = page.figures["regret-0"]["data"][0]
        self.assertEqual(page_checks.numbers_of(bars["x"])[0], 11.0)

    def test_nothing_finished(self):
        made_folder.write_folder(self.folder, windows=1)
        for path in (self.folder / "cells").iterdir():
            path.unlink()
        report.write_report(self.folder, say=quiet)
        page = page_checks.Page((self.folder / "report.html").read_text())
        self.assertEqual(page.offences, [])
        self.assertIn("12 did not", page.text)

    def test_a_trace_without_accesses_or_places(self):
        cells = made_folder.write_folder(self.folder, windows=1)
        for cell in cells:
            cell["report"] |= {"windows": [], "places": [], "bytes_by_route": {}, "marks": []}
            made_folder.write_cell(self.folder, cell)
        page = self.page()
        self.assertNotIn("moves-0", page.figures)

    def test_costs_of_nothing_and_metrics_that_nobody_has(self):
        cells = made_folder.write_folder(self.folder, traces=("drift", "idle"), windows=2)
        for cell in cells:
            if cell["cell"]["trace"] == "idle":
                cell["metrics"] |= {"cost_s": 0, "slowdown": None, "thrashes": None}
                made_folder.write_cell(self.folder, cell)
        made_folder.write_table(self.folder, cells)
        self.page()

    def test_names_are_text_and_never_markup(self):
        made_folder.write_folder(self.folder, traces=("</script><script>alert(1)//",), windows=2)
        page = self.page()
        self.assertEqual(len(page.scripts), 4)
        self.assertIn("<b>none</b> & all", page.text)

    def test_what_failed_is_named(self):
        cells = made_folder.write_folder(self.folder, windows=2)
        (self.folder / "cells" / f"{cells[0]['cell']['id']}.json").unlink()
        cells[4]["metrics"]["policy_failures"] = 2
        made_folder.write_cell(self.folder, cells[4])
        report.write_report(self.folder, say=quiet)
        page = page_checks.Page((self.folder / "report.html").read_text())
        for number in (4, 9):  # Failures of the policy, accesses lost.
            self.assertIn(cells[number]["cell"]["id"], page.text)
        self.assertIn("1 did not, 4 lost something", page.text)
        self.assertIn("h200x2drifthash1stay_put", page.text)  # The row of what did not finish.

    def test_a_bound_that_is_not_to_be_had_says_why(self):
        made_folder.write_folder(self.folder, bound=False, windows=2)
        (self.folder / "bounds").mkdir()
        (self.folder / "bounds" / "x.json").write_text(
            '{"inputs": {"id": "x"}, "bound": null, "reason": "the router looks at loads"}')
        (self.folder / "bounds" / "y.json").write_text(
            '{"inputs": {"id": "y"}, "bound": {}, "reason": null}')
        page = self.page()
        self.assertIn("xthe router looks at loads", page.text)
        self.assertNotIn("None", page.text)

    def test_what_an_experiment_asks_for_is_counted(self):
        asked = {"machines": ["a", "b"], "traces": [{"generate": "x"}, {"file": "y"}], "seeds": [1, 2, 3],
                 "policies": ["p", {"policy": "q", "sweep": {"m": [1, 2], "n": [1, 2, 3]}}]}
        self.assertEqual(failures.cells_count(asked), 2 * (3 + 1) * 7)
        self.assertEqual(failures.cells_count({**asked, "routers": ["hash", "object"]}), 112)
        self.assertIsNone(failures.cells_count({"machines": 3}))


class Pictures(WithFolder):
    def test_time_lines_keep_the_sums_in_400_points(self):
        cells = made_folder.write_folder(self.folder, windows=9999, policies=("a", "b"), seeds=(1,))
        page = self.page()
        moved = page.figures["time-1"]["data"][3]
        rates = page_checks.numbers_of(moved["y"])
        self.assertEqual(moved["name"], "moved")
        self.assertLessEqual(len(rates), 400)
        whole = sum(window["bytes_moved"] for window in cells[1]["report"]["windows"])
        step_s = page_checks.numbers_of(moved["x"])[0]
        self.assertAlmostEqual(sum(rates) * step_s * 2**30 / whole, 1, places=5)
        last = cells[1]["report"]["windows"][-1]["resident"][0]
        resident = page_checks.numbers_of(page.figures["time-1"]["data"][0]["y"])
        self.assertAlmostEqual(resident[-1], last / 2**30, places=4)

    def test_many_cells_have_few_pictures_each_scenario_its_cheapest_first(self):
        made_folder.write_folder(self.folder, machines=("a", "b"), traces=("c", "d"), windows=50)
        page = self.page(pictured_max=6)
        self.assertEqual([len(each["cells"]) for each in page.scenarios], [2, 2, 1, 1])
        self.assertIn("6 of 48 cells have pictures", page.text)
        names = [each["cells"][0]["policy"] for each in page.scenarios]
        self.assertEqual(names, ["stay_put, seed 1"] * 4)

    def test_a_wanted_cell_has_pictures(self):
        cells = made_folder.write_folder(self.folder, windows=20)
        wanted = cells[-1]["cell"]["id"]
        page = self.page(pictured_max=2, wanted=[wanted])
        self.assertIn(wanted, [cell["id"] for cell in page.scenarios[0]["cells"]])
        with self.assertRaisesRegex(ValueError, "no finished cell x"):
            self.page(wanted=["x"])

    def test_routes_are_the_heat_map(self):
        made_folder.write_folder(self.folder, policies=("a", "b"), seeds=(1,), windows=20)
        figures = self.page().figures
        self.assertNotIn("moves-0", figures)
        self.assertEqual(figures["moves-1"]["data"][0]["x"], ["gpu(0)", "gpu(1)", "host(0)"])


class Standing(WithFolder):
    def best(self, changes):
        cells = made_folder.write_folder(self.folder, policies=("a", "b"), windows=1)
        for cell, cost in zip(cells, changes):
            cell["metrics"]["cost_s"] = cost
            made_folder.write_cell(self.folder, cell)
        return all_standings(lab.load(self.folder))[0].best("cost_s")

    def test_what_differs_the_same_way_in_every_seed_is_told_apart(self):
        self.assertEqual(self.best([1, 5, 9, 2, 6, 10]), {"a"})

    def test_what_differs_now_this_way_now_that_is_not(self):
        # Both are best, so no mark says anything.
        self.assertEqual(self.best([1, 5, 9, 2, 4, 10]), set())


class Parts(unittest.TestCase):
    def test_neighbours_are_put_together(self):
        values = numpy.arange(7.0)
        self.assertEqual(list(downsampling.summed(values, 3)), [3, 12, 6])
        self.assertEqual(list(downsampling.last_of(values, 3)), [2, 5, 6])
        ratios = downsampling.ratio_of(values, [0, 0, 0, 1, 1, 2, 3], 3)
        self.assertTrue(math.isnan(ratios[0]))
        self.assertEqual(list(ratios[1:]), [3, 2])
        self.assertEqual(downsampling.group_length(401), 2)
        self.assertEqual(len(downsampling.summed([], 1)), 0)

    def test_numbers_have_four_digits(self):
        for value, text in ((0, "0"), (12.34567, "12.35"), (1234567.0, "1,234,567"),
                            (0.00012345, "0.0001234"), (-2.5, "-2.500"), (1e-12, "1e-12"),
                            (math.nan, "\u2013")):
            self.assertEqual(shown.number(value), text)
        self.assertEqual(shown.number(3.0, whole=True), "3")
        self.assertEqual(shown.unit_for("bytes", [3 * 2**30, math.nan])[0], "GiB")
        self.assertEqual(shown.unit_for("seconds", [0.002])[0], "ms")


class CommandLine(WithFolder):
    def test_parquet_has_the_frame(self):
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            self.skipTest("pyarrow is not installed")
        made_folder.write_folder(self.folder, windows=2)
        self.page()
        frame = pandas.read_parquet(self.folder / "results.parquet")
        pandas.testing.assert_frame_equal(frame, lab.load(self.folder).cells)

    def test_garbage_ends_with_the_file_and_the_reason(self):
        made_folder.write_folder(self.folder, windows=2)
        path = next((self.folder / "cells").iterdir())
        path.write_text("{")
        done = subprocess.run([sys.executable, "-m", "vmart.lab", "report", str(self.folder)],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"vmart.lab: {path}: line 1", done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertFalse((self.folder / "report.html").exists())

    def test_a_missing_library_is_named(self):
        made_folder.write_folder(self.folder, windows=2)
        (self.folder / "plotly.py").write_text("raise ImportError('gone')")
        code = (f"import sys; sys.path.insert(0, {str(self.folder)!r}); import vmart.lab.__main__ as m;"
                f"sys.exit(m.main(['report', {str(self.folder)!r}]))")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 69)
        self.assertIn("pip install plotly", done.stderr)

    def test_wrong_usage(self):
        for words in ([], ["paint"], ["report"]):
            with self.assertRaises(SystemExit) as caught, open("/dev/null", "w") as sink:
                sys.stderr, kept = sink, sys.stderr
                try:
                    main(words)
                finally:
                    sys.stderr = kept
            self.assertEqual(caught.exception.code, 2)


if __name__ == "__main__":
    unittest.main()
