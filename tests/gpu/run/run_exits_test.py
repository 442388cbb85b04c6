"""Goal: run_exits.py counts what it has played, also if its time is over before all of it.

    run_exits_test.py
"""

import argparse
import contextlib
import io
import math
import types
import unittest
from unittest import mock

import run_exits

GOOD = (3, 0.5, [])  # Moves, the seconds that the end took, and nothing wrong.


class Counts(unittest.TestCase):
    def count(self, one, count=50, for_s=math.inf, clock=lambda: 0.0):
        """Returns whether all is well, and what was printed to standard output and standard error."""
        options = argparse.Namespace(count=count, for_s=for_s, jobs=1, ways=["close", "SIGINT"], seed=7)
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors), \
                mock.patch.object(run_exits, "time", types.SimpleNamespace(monotonic=clock)):
            counted = run_exits.Count(options)
            counted.play_all(one)
            return counted.show(), out.getvalue(), errors.getvalue()

    def test_all_and_shows_progress(self):
        good, out, errors = self.count(lambda way, seed: GOOD)
        self.assertTrue(good)
        self.assertIn("close    25 runs, 25 had moved, the end took 0.50 s at most", out)
        self.assertIn("50 of 50 played, 0 failed, 0 without a move", out)
        self.assertEqual(errors, "25 of 50 played, 0 failed\n50 of 50 played, 0 failed\n")

    def test_what_was_played_in_time(self):
        now = [0.0]

        def one(way, seed):  # One at a time.
            now[0] += 1.0
            return GOOD

        good, out, errors = self.count(one, for_s=10, clock=lambda: now[0])
        self.assertTrue(good)
        self.assertIn("10 of 50 played, 0 failed, 0 without a move", out)
        self.assertEqual(errors, "")

    def test_nothing_played_shows_nothing(self):
        self.assertEqual(self.count(lambda way, seed: GOOD, for_s=0)[0], False)

    def test_failures_with_their_seeds(self):
        good, out, _ = self.count(lambda way, seed: (1, 0.1, ["hangs"] if seed == 9 else []), count=4)
        self.assertFalse(good)
        self.assertIn("close, seed 9: hangs", out)
        self.assertIn("4 of 4 played, 1 failed", out)

    def test_many_that_never_moved_are_a_failure(self):
        for still, expected in ((1, True), (2, False)):
            with self.subTest(still=still):
                good, _, _ = self.count(lambda way, seed: (int(seed - 7 >= still), 0.1, []), count=10)
                self.assertEqual(good, expected)


if __name__ == "__main__":
    unittest.main()
