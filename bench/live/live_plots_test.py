#!/usr/bin/env python3
"""Draws made-up samples twice and looks at the files: same bytes, every way named, no date. Exits with
77, which ctest shows as skipped, where matplotlib is missing."""

import pathlib
import sys
import tempfile
import unittest

import live_plots
from harness.plots import has_matplotlib
from harness.programs import skip
from harness.samples import Measurements


def result(name, counters=None, series=None, samples_us=(1.0,)):
    return {"name": name, "processes": 1, "samples_us": list(samples_us), "series": series or {},
            "counters": {key: [value] for key, value in (counters or {}).items()}}


def document():
    results = []
    for way, grows in (("live", 1), ("stopped", 1), ("held", 20)):
        for size, factor in (("256MiB", 1), ("16GiB", grows)):
            stall = {"stall_median_us": 200 * factor, "stall_p99_us": 300 * factor,
                     "stall_max_us": 900 * factor}
            results.append(result(f"live/size/{way}/{size}", stall))
    results.append(result("prefetch/gpu0-gpu1/256MiB", samples_us=[1300.0, 1400.0]))
    for way in ("live", "live_budget", "stopped", "held", "prefetch"):
        times = [float(at) for at in range(1, 201)]
        rates = [40.0 if 100 < at < 120 else 80.0 for at in times]
        results.append(result(f"live/timeline/{way}/4GiB", {"begin_ms": 100.0, "end_ms": 120.0},
                              {"at_ms": times, "launches_per_ms": rates}))
    return {"context": {"gpu_count": 2}, "results": results}


class Plots(unittest.TestCase):
    def test_the_same_samples_give_the_same_bytes_with_every_way_named(self):
        with tempfile.TemporaryDirectory() as folder:
            first, second = (live_plots.draw_all(document(), pathlib.Path(folder) / name)
                             for name in ("first", "second"))
            self.assertEqual([path.name for path in first],
                             ["live_stall_by_size.svg", "live_timeline.svg"])
            for one, other in zip(first, second):
                self.assertEqual(one.read_bytes(), other.read_bytes())
                self.assertNotIn("dc:date", one.read_text())
            for label, _, _ in live_plots.WAYS.values():
                self.assertIn(label, first[1].read_text())
            self.assertIn("16 GiB", first[0].read_text())

    def test_a_document_without_moves_draws_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            empty = {"context": {"gpu_count": 2}, "results": []}
            self.assertEqual(live_plots.draw_all(empty, pathlib.Path(folder)), [])

    def test_a_course_is_a_share_of_what_was_done_before(self):
        measured = Measurements(document())
        times, shares, end = live_plots.courses(measured)["live"]
        self.assertEqual((times[99], end), (0.0, 20.0))
        self.assertEqual((shares[0], shares[105]), (100.0, 50.0))


if __name__ == "__main__":
    if not has_matplotlib():
        sys.exit(skip("matplotlib is not installed"))
    unittest.main()
