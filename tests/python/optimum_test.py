#!/usr/bin/env python3
"""Solves what the real `vmart-lab bounds --lp` writes of generated traces, and compares it with the other
bounds: optimum_test.py VMART_LAB. Exits with 77, which ctest shows as skipped, where highspy is missing."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

SKIPPED = 77
PROGRAM = sys.argv.pop()
try:
    import highspy  # noqa: F401
except ImportError as error:
    print(f"SKIPPED: {error}", file=sys.stderr)
    sys.exit(SKIPPED)

from vmart.lab import ResultError
from vmart.lab.__main__ import MISSING, main
from vmart.lab.optimum import solve

SEED = int(os.environ.get("VMART_SEED", "1")) % 1_000_000
LATE, ON_TIME = [], ["--on-time"]


class WithTraces(unittest.TestCase):
    def setUp(self):
        owner = tempfile.TemporaryDirectory()
        self.addCleanup(owner.cleanup)
        self.folder = pathlib.Path(owner.name)
        self.model = self.folder / "model.lp"

    def bounds(self, seed, parameters, hbm_gib, options=(), generator="zipf-drift", machine="h200x2"):
        """What the program prints of a generated trace, by line; its program is in `self.model`."""
        trace = str(self.folder / "some.vtrace")
        values = [word for name, value in parameters.items() for word in ("--param", f"{name}={value}")]
        subprocess.run([PROGRAM, "generate", generator, trace, "--seed", str(seed), *values], check=True,
                       capture_output=True)
        done = subprocess.run([PROGRAM, "bounds", trace, "--machine", machine, "--hbm", str(hbm_gib),
                               "--chunk", "64", "--json", "--lp", str(self.model), *options],
                              check=True, capture_output=True)
        return json.loads(done.stdout)

    def check_order(self, printed, optimum):
        """Returns the line `exact`, if there is one."""
        rows = {row["name"]: row for row in printed["rows"]}
        for name in ("event", "lagrangian"):
            self.assertLessEqual(rows[name]["bound_s"], optimum.solution_s * (1 + 1e-6), name)
        for name, row in rows.items():
            if row["plan_s"] is not None:
                self.assertGreaterEqual(row["plan_s"], optimum.bound_s * (1 - 1e-6), name)
        return rows.get("exact")


class Optima(WithTraces):
    def compare(self, seeds, parameters, hbm_gib, options=(), **of_trace):
        """Returns in how many traces the optimum is above what prices find."""
        above = 0
        for seed in range(SEED, SEED + seeds):
            with self.subTest(seed=seed, options=options):
                printed = self.bounds(seed, parameters, hbm_gib, options, **of_trace)
                optimum = solve(self.model, seconds=300)
                self.assertTrue(optimum.optimal)
                exact = self.check_order(printed, optimum)["bound_s"]
                self.assertLess(abs(optimum.solution_s - exact), 1e-6 * exact)
                self.assertLess(abs(optimum.bound_s - exact), 2e-6 * exact)
                bounds = [row["bound_s"] for row in printed["rows"] if row["name"] == "lagrangian"]
                above += bounds[0] < exact * (1 - 1e-6)
        return above

    def test_they_are_the_exact_ones_of_small_traces(self):
        small = {"gpus": 2, "objects": 5, "length_s": 0.1, "accesses_s": 10000, "drift_s": 0.03}
        self.assertGreater(self.compare(16, small, 0.1), 2)
        self.assertGreater(self.compare(8, small | {"affinity": 0.5, "skew": 0.2}, 0.15), 1)

    def test_they_are_the_exact_ones_where_no_device_is_late(self):
        short = {"gpus": 2, "objects": 5, "length_s": 0.02, "accesses_s": 10000, "drift_s": 0.005}
        self.assertGreater(self.compare(16, short, 0.1, ON_TIME), 2)
        phases = {"gpus": 2, "phases": 3, "phase_s": 0.05, "objects": 5, "set": 2, "accesses_s": 400}
        self.compare(4, phases, 0.15, ON_TIME, generator="phase-change")

    def test_they_are_the_exact_ones_where_moves_go_by_hubs(self):
        eight = {"gpus": 8, "objects": 4, "length_s": 0.007, "accesses_s": 8000, "drift_s": 0.002}
        self.compare(4, eight, 0.07, ON_TIME, machine="h200x8")
        self.assertRegex(self.model.read_text(), r"c\d+_b\d+s\d_b\d+h")

    def test_they_are_between_the_others_where_the_exact_one_is_out_of_reach(self):
        for options, length_s, hbm_gib in ((LATE, 0.5, 0.6), (ON_TIME, 0.02, 0.4)):
            with self.subTest(options=options):
                middle = {"gpus": 2, "objects": 30, "length_s": length_s, "accesses_s": 8000,
                          "drift_s": length_s / 4}
                printed = self.bounds(SEED, middle, hbm_gib, options)
                self.assertGreater(printed["blocks"], 15)
                optimum = solve(self.model, seconds=300)
                self.assertTrue(optimum.optimal)
                self.assertIsNone(self.check_order(printed, optimum))
                self.assertLess(optimum.gap, 2e-6)
                self.assertGreater(optimum.solution_s, printed["bound"]["lower_bound_s"] * (1 + 1e-6))

    def test_where_all_finds_room_nothing_is_left_to_choose(self):
        printed = self.bounds(SEED, {"gpus": 2, "objects": 5, "length_s": 0.1}, 10)
        optimum = solve(self.model)
        self.assertTrue(optimum.optimal)
        self.assertLess(abs(optimum.bound_s - self.check_order(printed, optimum)["bound_s"]), 1e-9)


class Command(WithTraces):
    def run_main(self, *words):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(["optimum", *map(str, words)])
        return status, out.getvalue() + err.getvalue()

    def test_it_prints_what_was_found(self):
        self.bounds(SEED, {"gpus": 2, "objects": 4, "length_s": 0.02}, 0.1, ON_TIME)
        status, printed = self.run_main(self.model, "--gap", "1e-5", "--seconds", "100")
        lines = dict(line.split(maxsplit=1) for line in printed.splitlines())
        self.assertEqual((status, lines["optimal"]), (0, "yes"), printed)
        self.assertGreaterEqual(float(lines["solution_s"]), float(lines["bound_s"]))

    def test_a_bound_that_is_not_proven_is_told_from_one_that_is(self):
        # Far too much for a millisecond.
        self.bounds(SEED, {"gpus": 2, "objects": 30, "length_s": 0.5, "accesses_s": 8000}, 0.4)
        status, printed = self.run_main(self.model, "--seconds", "0.001")
        self.assertEqual(status, 0)
        self.assertIn("optimal     no: the time was over before", printed)

    def test_what_is_no_whole_program_is_refused_by_name(self):
        self.bounds(SEED, {"gpus": 2, "objects": 4, "length_s": 0.02}, 0.1, ON_TIME)
        text = self.model.read_bytes()
        for spoilt, reason in ((text[:len(text) // 2], "ends early"), (text[1:], "is no program"),
                               (text.replace(b"microseconds:", b"hours:"), "is no program"), (b"", "is no program")):
            self.model.write_bytes(spoilt)
            status, printed = self.run_main(self.model)
            self.assertEqual(status, 1)
            self.assertIn(f"{self.model}: {reason}", printed)
        self.model.write_bytes(text.replace(b"Subject To\n", b"Subject To\n no:\n + 1 constant\n = 2\n"))
        self.assertIn("no placement keeps to the capacities", self.run_main(self.model)[1])
        self.assertIn("No such file", self.run_main(self.folder / "none.lp")[1])
        self.assertIn("needs seconds above 0", self.run_main(self.model, "--seconds", "-1")[1])

    def test_without_the_solver_it_says_what_is_missing(self):
        self.bounds(SEED, {"gpus": 2, "objects": 4, "length_s": 0.02}, 0.1)
        with unittest.mock.patch.dict(sys.modules, highspy=None):
            status, printed = self.run_main(self.model)
        self.assertEqual(status, MISSING)
        self.assertIn("needs highspy (pip install highspy)", printed)

    def test_a_program_that_cannot_be_written_is_an_error(self):
        with self.assertRaises(subprocess.CalledProcessError) as caught:
            self.model = self.folder / "none" / "model.lp"
            self.bounds(SEED, {"gpus": 2, "objects": 4, "length_s": 0.02}, 0.1)
        self.assertIn(b"none/model.lp: No such file", caught.exception.stderr)

    def test_errors_name_the_file(self):
        self.assertRaises(ResultError, solve, __file__)


if __name__ == "__main__":
    unittest.main()
