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
from vmart.lab import baseline, downsampling, failures, report, shares, shown
from vmart.lab.__main__ import main
from vmart.lab.kinds import by_kind, kind_of
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
        made_folder.write_folder(self.folder, seeds=range(1, 6))
        page = self.page()
        self.assertEqual([policy for _, policy in page.policy_order if policy],
                         list(made_folder.POLICIES))
        self.assertIn((SCENARIO, "stay_put", "time_s"), page.best)
        self.assertNotIn((SCENARIO, "cost_benefit", "time_s"), page.best)
        self.assertIn("regret over relaxed bound", page.text)
        self.assertIn("Accesses and moves take no policy less than 9.500 s (relaxed bound); the best plan that "
                      "was found takes 9.750 s. It was shown to be tight for all 5 seeds.", page.text)
        self.assertIn("no policy static in this experiment", page.text)

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

    def test_without_static_the_dots_are_times_a_mean_and_each_seed(self):
        made_folder.write_folder(self.folder, bound=False, seeds=(4, 8), windows=50)
        page = self.page()
        means, seeds = page.figures["compared-0"]["data"]
        self.assertEqual(page.figures["compared-0"]["layout"]["xaxis"]["type"], "log")
        self.assertAlmostEqual(page_checks.numbers_of(means["x"])[0], math.sqrt(11.0 * 12.0))
        self.assertEqual(page_checks.numbers_of(seeds["x"])[:2], [11.0, 12.0])
        self.assertEqual((seeds["y"][0], seeds["mode"], seeds["customdata"][:2]), ("stay_put", "markers", [4, 8]))

    def test_regret_stands_only_where_the_bound_was_shown_to_be_tight(self):
        # The plan of seed 1 is near, and a policy in seed 2; of seed 3 nothing is.
        cells = made_folder.write_folder(self.folder, policies=("a", "b"), windows=2)
        for cell in cells:
            seed, first = cell["cell"]["seed"], cell["cell"]["policy"] == "a"
            cell["bound"] |= {"gap": 0.1, "plan_s": 10.45} if seed == 1 else {"gap": 0.6, "plan_s": 15.2}
            cell["regret"] = 0.09 if seed == 2 and first else 0.5
            made_folder.write_cell(self.folder, cell)
        made_folder.write_table(self.folder, cells)
        results = lab.load(self.folder)
        self.assertEqual(list(results.cells["bound_tight"]), [1, 1, 0] * 2)
        self.assertEqual(list(results.summary["regret_count"]), [2, 2])
        self.assertAlmostEqual(results.cells["over_plan"][0], 10.25 / 10.45)
        self.assertIn("Nothing that is known comes within 10 % of the bound for 1 of 3 seeds", self.page().text)
        for cell in cells:
            cell["bound"]["kind"] = "exact"
            made_folder.write_cell(self.folder, cell)
        self.assertEqual(set(lab.load(self.folder).cells["bound_tight"]), {1})

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
            cell["report"] |= {"windows": [], "places": [], "devices": [], "bytes_by_route": {},
                               "marks": []}
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
        self.assertEqual(failures.cells_count(asked), 2 * (3 + 1) * (7 + 1), "with static")
        self.assertEqual(failures.cells_count({**asked, "static": False}), 2 * (3 + 1) * 7)
        self.assertEqual(failures.cells_count({**asked, "policies": [*asked["policies"], "static"]}), 64)
        self.assertEqual(failures.cells_count({**asked, "routers": ["hash", "object"]}), 128)
        # Neither depends on the seed.
        asked["traces"] = [{"generate": "rebalance"}, {"convert": "azure"}, {"convert": "vidur"}]
        self.assertEqual(failures.cells_count(asked), 2 * (1 + 1 + 3) * 8)
        self.assertIsNone(failures.cells_count({"machines": 3}))


class Baseline(WithFolder):
    POLICIES = ("static", "mover", "other")

    def write(self, costs, seeds=(1, 2), **options):
        """Costs of all seeds of each policy, a list a trace."""
        cells = made_folder.write_folder(self.folder, policies=self.POLICIES, seeds=seeds, windows=2, **options)
        for cell, cost in zip(cells, (cost for of_trace in costs for cost in of_trace)):
            cell["metrics"]["cost_s"] = cost
            made_folder.write_cell(self.folder, cell)
        made_folder.write_table(self.folder, cells)
        return cells

    def test_each_policy_stands_beside_static_with_the_same_seeds(self):
        self.write([(10, 20, 5, 30, 10.1, 20.2)])
        page = self.page()
        self.assertAlmostEqual(float(page.against_static[SCENARIO, "mover"]), math.sqrt(0.5 * 1.5))
        self.assertIn("(worse with 1 of 2 seeds)", page.text)
        self.assertEqual(float(page.against_static[SCENARIO, "static"]), 1.0)

    def test_only_what_five_seeds_can_tell_is_marked_as_worse(self):
        costs = [*[10] * 5, 10, 10, 30, 10, 10, 12, 12.1, 12, 12, 12.2]
        self.write([costs], seeds=range(5))
        self.assertEqual(self.page().worse, {(SCENARIO, "other")})
        self.folder = self.folder / "fewer"
        self.write([[cost for number, cost in enumerate(costs) if number % 5 < 4]], seeds=range(4))
        self.assertEqual(self.page().worse, set())

    def test_a_closed_loop_is_ranked_by_its_makespan(self):
        cells = self.write([(10, 10, 11, 11, 9, 9)])
        for cell, seconds in zip(cells, (20, 20, 19.5, 19.5, 30, 30)):
            cell["cell"]["measure"] = "seconds"
            cell["metrics"]["seconds"] = seconds
            made_folder.write_cell(self.folder, cell)
        made_folder.write_table(self.folder, cells)
        page = self.page()
        self.assertAlmostEqual(float(page.against_static[SCENARIO, "mover"]), 0.975)
        self.assertEqual([policy for _, policy in page.policy_order if policy], ["mover", "static", "other"])
        self.assertIn("makespan s", page.text)
        summary = lab.load(self.folder).summary.set_index("policy")
        self.assertEqual((summary.loc["mover", "measure"], summary.loc["mover", "time_s_mean"]), ("seconds", 19.5))

    def test_no_end_of_an_interval_is_below_the_bound_of_a_makespan(self):
        cells = self.write([(10, 10.5, 11, 10.9, 9, 30)])
        for cell in cells:
            cell["cell"]["measure"] = "seconds"
            cell["metrics"]["seconds"] = cell["metrics"]["cost_s"]
            cell["bound"] |= {"lower_bound_s": 8.0, "metric": "seconds"}
            made_folder.write_cell(self.folder, cell)
        made_folder.write_table(self.folder, cells)
        standings = all_standings(lab.load(self.folder))[0]
        ratios = baseline.ratios_of(standings, "other")
        mean, low, high = baseline.interval(standings, ratios, baseline.times_of(standings, "static"))
        self.assertAlmostEqual(mean, math.sqrt(9 / 10 * 30 / 10.5))
        self.assertAlmostEqual(low, math.sqrt(8 / 10 * 8 / 10.5))
        self.assertGreater(high, 100)
        text = self.page().text
        self.assertIn("(8.000 to 152.9)", text)

    def test_cells_in_which_no_policy_differs_are_counted_as_dead(self):
        self.write([(10, 20, 10.1, 19.9, 10, 20.1), (10, 10, 10, 9.8, 10, 10.2)], traces=("drift", "chat"))
        standings = all_standings(lab.load(self.folder))
        self.assertEqual([baseline.live_seeds(each) for each in standings], [set(), {2}])
        mover = baseline.Against("mover", standings)
        self.assertEqual((len(mover.ratios), mover.live), (4, 1))
        text = self.page().text
        self.assertIn("Dead: no policy differs by more than 1 % with any of 2 seeds.", text)
        self.assertIn("Policies differ by more than 1 % with 1 of 2 seeds.", text)
        self.assertIn("1 of 1 live", text)  # `other` on chat.

    def test_seeds_that_give_the_same_numbers_count_once(self):
        cells = self.write([(10, 20, 5, 30, 10, 10)])
        first = {cell["cell"]["policy"]: cell for cell in cells if cell["cell"]["seed"] == 1}
        for cell in cells:
            cell["metrics"], cell["regret"] = (first[cell["cell"]["policy"]][key] for key in ("metrics", "regret"))
            made_folder.write_cell(self.folder, cell)
        results = lab.load(self.folder)
        self.assertEqual((len(results.cells), len(results.distinct), set(results.summary["seeds"])), (6, 3, {1}))
        self.assertEqual(len(baseline.Against("mover", all_standings(results)).ratios), 1)

    def test_harm_is_counted_in_cells_and_the_worst_is_named(self):
        self.write([(10, 20, 5, 30, 10.1, 20.2), (10, 10, 10.2, 9, 10, 40)], traces=("drift", "chat"))
        standings = all_standings(lab.load(self.folder))
        mover, other = baseline.Against("mover", standings), baseline.Against("other", standings)
        self.assertEqual((len(mover.ratios), mover.worse, mover.worst, mover.worst_in),
                         (4, 2, 1.5, SCENARIO))
        self.assertAlmostEqual(mover.mean, math.sqrt(math.sqrt(0.5 * 1.5) * math.sqrt(1.02 * 0.9)))
        # 1 % more is not worse yet.
        self.assertEqual((other.worse, other.worst, other.worst_in), (1, 4.0, "chat on h200x2, router hash"))

    def test_what_lost_accesses_is_not_compared(self):
        cells = self.write([(10, 20, 5, 30, 10, 20)])
        for number in (0, 3):  # static with seed 1, mover with seed 2.
            cells[number]["metrics"]["accesses_lost"] = 1
            made_folder.write_cell(self.folder, cells[number])
        standings = all_standings(lab.load(self.folder))[0]
        self.assertEqual(baseline.ratios_of(standings, "mover"), {})
        self.assertEqual(baseline.ratios_of(standings, "other"), {2: 1.0})

    def test_kinds_of_traces_are_never_in_one_mean(self):
        self.write([(10, 10, 5, 5, 10, 10), (10, 10, 20, 20, 10, 10), (10, 10, 40, 40, 10, 10)],
                   traces=("a", "b", "c"), kinds={"a": "real", "b": "synthetic", "c": "held_out"})
        text = self.page().text
        places = [text.index(heading) for heading in ("Real traces", "Synthetic traces", "Held-out traces")]
        self.assertEqual(places, sorted(places))
        for heading, mean in (("Real traces", "mover0.500"), ("Synthetic traces", "mover2.000"),
                              ("Held-out traces", "mover4.000")):
            part = text[text.index(heading):]
            self.assertIn(mean, part[:part.index("on h200x2")], heading)
        groups = dict(by_kind(all_standings(lab.load(self.folder))))
        self.assertEqual([[each.trace for each in group] for group in groups.values()], [["a"], ["b"], ["c"]])

    def test_a_trace_is_what_it_says_or_how_it_is_made(self):
        for trace, kind in (({"generate": "x"}, "synthetic"), ({"convert": "x"}, "real"), ({"file": "x"}, "real"),
                            ({"generate": "x", "kind": "held_out"}, "held_out"), ({"file": "x", "kind": 7}, "real"),
                            ("x", "real")):
            self.assertEqual(kind_of(trace), kind)


class Shares(WithFolder):
    def test_a_device_with_most_accesses_is_named_with_trace_router_and_share(self):
        cells = made_folder.write_folder(self.folder, gpus=4, windows=2)
        for number, accesses in ((0, 34), (1, 90)):
            cells[number]["report"]["devices"][2]["accesses"] = accesses
            made_folder.write_cell(self.folder, cells[number])
        text = self.page().text
        # 34 of 68 are half of all, no more; 90 of 124 are too many.
        self.assertIn("drift on h200x2: with router hash, 72.6 % of the accesses are on gpu(2) (cells: 1)", text)
        self.assertIn("gpu(2) 50.0\u202f% (25.0\u202f%)", text)

    def test_of_two_devices_more_than_three_quarters_are_too_many(self):
        cells = made_folder.write_folder(self.folder, windows=2)
        for accesses, warned in ((33, 0), (34, 1)):
            cells[0]["report"]["devices"] = [{"accesses": accesses, "bytes": 1}, {"accesses": 11, "bytes": 0}]
            made_folder.write_cell(self.folder, cells[0])
            self.assertEqual(len(shares.crowd_warnings(lab.load(self.folder))), warned)

    def test_one_device_is_never_crowded(self):
        made_folder.write_folder(self.folder, gpus=1, windows=2)
        self.assertEqual(shares.crowd_warnings(lab.load(self.folder)), [])

    def test_the_page_names_the_version_and_the_traces(self):
        cells = made_folder.write_folder(self.folder, windows=2, seeds=(1,))
        for cell in cells:
            cell["report"]["inputs"]["trace_sum"] = "0123abcd"
            made_folder.write_cell(self.folder, cell)
        self.assertIn("vmart-lab 0.1.0, and traces with these checksums:traceseedchecksumdrift10123abcd",
                      self.page().text)


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


class Stopped(WithFolder):
    def best(self, *costs):
        """Of policies a, b, ..., with the costs of five seeds, or fewer."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder.parent)) / "best"
        cells = made_folder.write_folder(folder, policies="abc"[:len(costs)], windows=1, seeds=range(len(costs[0])))
        for cell, cost in zip(cells, (cost for of_policy in costs for cost in of_policy)):
            cell["metrics"]["cost_s"] = cost
            made_folder.write_cell(folder, cell)
        return all_standings(lab.load(folder))[0].best()

    def test_what_differs_the_same_way_in_every_seed_is_told_apart(self):
        self.assertEqual(self.best([100, 50, 90, 70, 60], [101, 51, 91, 71, 61]), {"a"})

    def test_fewer_than_five_seeds_tell_nothing_apart(self):
        for seeds in range(1, 5):
            self.assertEqual(self.best([10] * seeds, [20] * seeds), set())
        self.assertEqual(self.best([10] * 5, [20] * 5), {"a"})

    def test_what_differs_now_this_way_now_that_is_not(self):
        # Both are best, so no mark says anything.
        self.assertEqual(self.best([100, 50, 90, 70, 60], [101, 49, 90, 71, 60]), set())
        self.assertEqual(self.best([100, 50, 90, 70, 60], [101, 49, 90, 71, 60], [200] * 5), {"a", "b"})

    def test_what_is_far_from_the_best_is_not_marked_however_wide_the_spread(self):
        self.assertEqual(self.best([10, 40, 10, 40, 10], [40, 20, 40, 20, 40]), {"a"})


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
