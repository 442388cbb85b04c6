"""How moves stop a program under `vmart run`. stops_test.py VMART PROGRAM"""

import json
import sys
import time
import unittest

from run_test import PROGRAM, Running, result_of, run

KINDS = ("stall_suspended", "stall_held")


class Stops(unittest.TestCase):
    def test_suspend_it_by_default(self):
        self.assert_stops("stall_suspended")

    def test_hold_it_if_told_to(self):
        self.assert_stops("stall_held", VMART_STOP="gate")

    def test_hold_it_where_it_has_no_channels(self):
        self.assert_stops("stall_held", SIMCUDA_CHANNELS="0")

    def assert_stops(self, expected, **changes):
        with Running("linked", "stream", **changes) as running:
            counts, until = {expected: 0}, time.monotonic() + 60
            while counts[expected] == 0 and time.monotonic() < until:  # A busy computer decides later.
                for place in ("gpu1", "gpu0"):
                    running.control("migrate", "run", place)
                stats = json.loads(running.control("stats", "--json"))["runtime"]
                counts = {kind: stats[kind]["count"] for kind in KINDS}
            self.assertGreater(counts[expected], 0)
            if expected != "stall_suspended":
                self.assertEqual(counts["stall_suspended"], 0)
            self.assertEqual(running.result(), result_of(run(PROGRAM, "linked").stdout))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
