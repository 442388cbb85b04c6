#!/usr/bin/env python3
"""The scheduler's tables say what the samples say, and which bar is held."""

import pathlib
import sys
import unittest

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))
import placement_figures
from harness.samples import Measurements, verdict


def measured(*entries):
    results = [{"name": name, "processes": 1, "samples_us": [1.0],
                "counters": {counter: [value] for counter, value in counters.items()}}
               for name, counters in entries]
    return Measurements({"context": {"gpu_count": 4}, "results": results, "failed": [], "left_out": []})


class BarsTest(unittest.TestCase):
    def row(self, data, start):
        return next(row for row in placement_figures.bar_rows(data) if row[0].startswith(start))

    def test_a_bar_is_held_or_not(self):
        held = self.row(measured(("placement/drift/gpus4", {"of_best_least_share": 0.96})), "of the best")
        missed = self.row(measured(("placement/drift/gpus4", {"of_best_least_share": 0.94})), "of the best")
        self.assertEqual(held[1], "96.0 %")
        self.assertEqual(missed[1], "94.0 %")
        self.assertNotEqual(held[3], missed[3])
        self.assertEqual(held[3], verdict(True))

    def test_what_was_not_measured_says_so(self):
        self.assertEqual(self.row(measured(), "lost to an idle")[1], "not measured")

    def test_what_is_lost_stands_beside_the_spread(self):
        row = self.row(measured(("placement/idle/stay_put", {"lost_share": 0.004, "spread_share": 0.03})),
                       "lost to an idle scheduler, idle/stay_put")
        self.assertEqual(row[1], "0.4 % (without one, rounds spread 3.0 %)")
        self.assertEqual(row[3], verdict(True))

    def test_a_phase_without_recovery_misses_the_bar(self):
        counters = {"recovery_most_ms": 700, "recovered_count": 2, "phase0_recovered_count": 1,
                    "phase1_recovered_count": 1}
        held = self.row(measured(("placement/drift/gpus2", counters)), "back at 90 %")
        self.assertEqual(held[1:], ["700.0 ms", "<= 1 s", verdict(True)])
        slow = self.row(measured(("placement/drift/gpus2", counters | {"recovery_most_ms": 1100})),
                        "back at 90 %")
        self.assertEqual(slow[3], verdict(False))
        never = self.row(measured(("placement/drift/gpus2", counters | {
            "recovery_most_ms": 900, "recovered_count": 1, "phase1_recovered_count": 0})), "back at 90 %")
        self.assertEqual(never[1:], ["not within 0.9 s", "<= 1 s", verdict(False)])

    def test_flicker_may_cost_little(self):
        data = measured(("placement/flicker/gpus2",
                         {"lost_share": 0.021, "spread_share": 0.001, "moves_per_s": 1.26}))
        lost = self.row(data, "lost to moves while hot sets flicker, flicker/gpus2")
        self.assertEqual(lost[1], "2.1 % (in dry runs, rounds spread 0.1 %)")
        self.assertEqual(lost[3], verdict(False))
        self.assertEqual(self.row(data, "moves a second")[1:], ["1.3", "shown", ""])

    def test_each_share_has_its_row(self):
        data = measured(("placement/oversubscribed/hot995", {"of_best_share": 0.9}),
                        ("placement/oversubscribed/hot800", {"of_best_share": 0.8}))
        rows = [row for row in placement_figures.bar_rows(data) if "oversubscribed/" in row[0]]
        self.assertEqual(sorted(row[1] for row in rows), ["80.0 %", "90.0 %"])


class DriftTest(unittest.TestCase):
    def test_phases_are_in_order(self):
        counters = {f"phase{phase}_{what}_gb_s": 10 * phase + place
                    for phase in (1, 0)
                    for place, what in enumerate(("scheduler", "best", "second", "first_touch"))}
        counters |= {"phase0_of_best_share": 0.5, "phase1_of_best_share": 1.0,
                     "phase1_settled_ms": 2345, "phase1_settled_count": 1,
                     "phase0_recovery_ms": 6000, "phase0_recovered_count": 0, "phase0_course_share": 0.3,
                     "phase1_recovery_ms": 350, "phase1_recovered_count": 1}
        rows = placement_figures.drift_rows(measured(
            ("placement/drift/gpus4", counters), ("managed/drift/gpus4", {"phase1_managed_gb_s": 7})))
        self.assertEqual(rows, [["4, 0", "0", "1", "2", "3", "-", "50.0 %", "-", "never", "30.0 %"],
                                ["4, 1", "10", "11", "12", "13", "7", "100.0 %", "2.3 s", "0.35 s", "-"]])


class OversubscribedTest(unittest.TestCase):
    def test_a_row_a_share(self):
        rows = placement_figures.oversubscribed_rows(measured(
            ("placement/oversubscribed/hot995",
             {"rate_gb_s": 9, "all_hbm_gb_s": 12, "all_host_gb_s": 1, "best_gb_s": 10,
              "of_best_share": 0.9, "hot_in_hbm_share": 1, "settled_ms": 24000, "settled_count": 0})))
        self.assertEqual(rows, [["99.5 %", "9", "12", "1", "10", "90.0 %", "100.0 %", "not yet"]])


if __name__ == "__main__":
    unittest.main()
