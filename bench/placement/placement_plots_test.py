#!/usr/bin/env python3
"""What the picture of drifting hot sets is drawn from, and where matplotlib is, the same picture twice."""

import pathlib
import tempfile
import unittest

import placement_plots
from harness.plots import has_matplotlib
from harness.samples import Measurements


def document():
    rates = [100.0] * 20 + [20.0] * 20
    counters = {f"phase{phase}_{name}_gb_s": [float(value)] for phase in (0, 1)
                for name, value in (("best", 110), ("first_touch", 10 + phase))}
    drift = {"name": "placement/drift/gpus2", "processes": 1, "samples_us": [1.0],
             "counters": counters, "series": {"gb_s": rates}}
    managed = {"name": "managed/drift/gpus2", "processes": 1, "samples_us": [1.0],
               "counters": {"phase0_managed_gb_s": [5.0]}}
    return {"context": {"gpu_count": 2}, "results": [drift, managed]}


class Plots(unittest.TestCase):
    def test_phases_follow_each_other_with_what_was_measured(self):
        gpus, times, rates, phases = placement_plots.drift_course(
            Measurements(document()), phase_s=10)
        self.assertEqual(gpus, "2")
        self.assertEqual((times[0], times[-1], len(rates)), (0.25, 19.75, len(times)))
        self.assertEqual([phase[:2] for phase in phases], [(0, 10), (10, 20)])
        self.assertEqual(phases[1][2], {"best": 110, "first_touch": 11, "managed": None})
        self.assertEqual(phases[0][2]["managed"], 5)

    def test_without_samples_there_is_nothing_to_draw(self):
        empty = Measurements({"context": {"gpu_count": 2}, "results": []})
        self.assertIsNone(placement_plots.drift_course(empty, phase_s=1))

    @unittest.skipUnless(has_matplotlib(), "matplotlib is not installed")
    def test_the_same_samples_give_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            first, second = (placement_plots.draw_all(document(), pathlib.Path(folder) / name, 3)[0]
                             for name in ("first", "second"))
            self.assertEqual(first.read_bytes(), second.read_bytes())
            self.assertIn("first touch", first.read_text())


if __name__ == "__main__":
    unittest.main()
