#!/usr/bin/env python3
"""Runs a small experiment on two Ray nodes of this machine: sweep_test.py VMART_LAB MACHINE_FILE. A long
test: exits with 77, which ctest shows as skipped, without VMART_LONG=1 or ray."""

import os
import pathlib
import sys
import unittest

import small_experiment

sys.path.append(str(pathlib.Path(__file__).parent / "experiments"))
import rig

SKIPPED = 77
MACHINE = pathlib.Path(sys.argv.pop())
PROGRAM = os.path.abspath(sys.argv.pop())

class Sweeps(small_experiment.SmallExperiment):
    program, machine = PROGRAM, MACHINE

    @classmethod
    def setUpClass(cls):
        from ray.cluster_utils import Cluster

        super().setUpClass()
        # What tasks leave in temporary folders is left in this one.
        os.environ["TMPDIR"] = str(cls.top)
        cls.cluster = Cluster(initialize_head=True,
                              head_node_args={"num_cpus": 1, "include_dashboard": False})
        cls.addClassCleanup(cls.cluster.shutdown)
        cls.cluster.add_node(num_cpus=1)
        cls.cluster.wait_for_nodes(timeout=60)

    def sweep(self, name, **options):
        from vmart.lab.sweep import Sweep

        lines = []
        sweep = Sweep(self.experiment, self.top / name, say=lines.append, **options)
        return sweep.run(self.cluster.address), lines

    def files(self, name):
        found = {path.name: path.read_bytes() for folder in ("cells", "bounds")
                 for path in (self.top / name / folder).iterdir()}
        return found | {"results.csv": (self.top / name / "results.csv").read_bytes()}

    def test_two_nodes_give_what_one_machine_gives_and_leave_nothing(self):
        status, lines = self.sweep("two", program=PROGRAM)
        self.assertEqual(status, 0, lines)
        self.assertEqual(self.files("two"), self.files("results"))
        self.assertEqual(list(self.top.glob("vmart-sweep-*")), [])
        # Again: nothing is left to do.
        status, lines = self.sweep("two", program=PROGRAM)
        self.assertEqual((status, lines[0]), (0, "18 cells, 18 of them finished"))

    def test_a_cell_that_fails_is_tried_again_and_named_and_the_rest_goes_on(self):
        cell = "h200x2~phases~stay_put~prefix~s2"
        program, log = rig.stand_in(self.top / "failing.py", PROGRAM, f'"cell": {{"id": "{cell}"', rig.REFUSES)
        status, lines = self.sweep("failing", program=program, tries_max=2)
        self.assertEqual(status, 1)
        self.assertEqual(len(log.read_text().splitlines()), 2)
        self.assertEqual(lines[-1], f"failed 2 times: {cell}: no luck today")
        finished = {path.stem for path in (self.top / "failing" / "cells").glob("*.json")}
        self.assertEqual(len(finished), small_experiment.CELLS - 1)
        self.assertFalse((self.top / "failing" / "results.csv").exists())
        # Where the cause is gone, what is missing is done.
        status, lines = self.sweep("failing", program=PROGRAM)
        self.assertEqual((status, lines[0]), (0, "18 cells, 17 of them finished"))
        self.assertEqual(self.files("failing"), self.files("results"))

    def test_a_folder_of_another_experiment_is_refused(self):
        from vmart.lab import ExperimentError

        folder = self.top / "other"
        folder.mkdir()
        (folder / "experiment.json").write_text("{}")
        with self.assertRaisesRegex(ExperimentError, "is of an experiment other than"):
            self.sweep("other", program=PROGRAM)


if __name__ == "__main__":
    if not os.environ.get("VMART_LONG"):
        print("SKIPPED: needs VMART_LONG=1", file=sys.stderr)
        sys.exit(SKIPPED)
    try:
        import ray  # noqa: F401
    except ImportError as error:
        print(f"SKIPPED: {error}", file=sys.stderr)
        sys.exit(SKIPPED)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    unittest.main()
