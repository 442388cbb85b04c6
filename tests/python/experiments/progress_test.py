#!/usr/bin/env python3
"""The progress of a run: one line of a terminal, whatever the stage; lines now and then elsewhere: progress_test.py
VMART_LAB. Method: a real run, and a clock that the test sets."""

import contextlib
import io
import re
import unittest
from unittest import mock

import rig
from vmart.lab.experiments import progress
from vmart.lab.experiments.run import run_experiment

PROGRAM = rig.program_argument()


class Terminal(io.StringIO):
    def __init__(self, terminal=True):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


class Shows(rig.Rig):
    program = PROGRAM

    def setUp(self):
        super().setUp()
        self.write({**rig.QUICK, "bounds": True})

    def shown(self, terminal, step_s):
        """What is printed, if each look at the clock is `step_s` later."""
        printed = Terminal(terminal)
        clock = mock.Mock(side_effect=(step_s * count for count in range(10_000)))
        with contextlib.redirect_stderr(printed), mock.patch.object(progress.time, "monotonic", clock):
            told = progress.Progress()
            run_experiment(self.file, self.folder / "results", 1, (), PROGRAM, told)
            told.end()
        return printed.getvalue()

    def test_a_terminal_has_one_line_for_all_stages(self):
        with mock.patch.object(progress, "columns_max", lambda: 60):
            text = self.shown(True, 1)
        self.assertEqual(text.count("\n"), 1)
        self.assertTrue(text.endswith("\n"))
        lines = [line.removesuffix("\x1b[K") for line in text[:-1].split("\r")[1:]]
        self.assertLessEqual(max(map(len, lines)), 60)
        for stage in ("2/2 making and reading tr", "4/4 finding lower bounds", "] 8/8"):
            self.assertTrue(any(stage in line for line in lines), stage)

    def test_elsewhere_each_stage_has_a_line_now_and_then(self):
        lines = self.shown(False, 4).splitlines()
        self.assertTrue(any(re.match("finding lower bounds [1-4] of 4, ", line) for line in lines), lines)
        self.assertTrue(any(re.match("[1-8] of 8 cells, ", line) for line in lines), lines)
        self.assertLess(len(lines), 8)
        self.assertNotIn("\r", "".join(lines))

    def test_what_was_finished_before_does_not_hide_in_the_line(self):
        self.run_into("results")
        self.assertIn("\r8 of 8 cells were already finished\x1b[K\n", self.shown(True, 1))


if __name__ == "__main__":
    unittest.main()
