"""A program under `vmart run` gives all of its HBM away for a while. park_test.py VMART PROGRAM"""

import json
import sys
import unittest

from run_test import PROGRAM, VMART, Running, places, result_of, run


class Park(unittest.TestCase):
    def test_takes_all_memory_out_of_hbm_until_unparked(self):
        with Running("resolver", "stream") as running:
            running.control("migrate", "largest:2", "gpu1")
            running.control("park")
            self.assertEqual({at for one in running.where() for at in places(one)}, {"host(0)"})
            gpus = [place for place in self.places_of(running) if place["at"] != "host(0)"]
            self.assertEqual([(gpu["used_bytes"], gpu["capacity_bytes"]) for gpu in gpus], 2 * [(0, 0)])
            running.control("unpark", "gpu1")
            self.assertEqual({at for one in running.where() for at in places(one)}, {"gpu(1)"})
            self.assertGreater(min(place["capacity_bytes"] for place in self.places_of(running)), 0)
            self.assertEqual(running.result(), result_of(run(PROGRAM, "resolver").stdout))

    def test_is_refused_for_places_that_are_none(self):
        with Running("linked", "stream") as running:
            running.control("park")
            for place, code, told in (("mars", 2, "is not a place"), ("gpu9", 1, "none of the program's GPUs")):
                refused = run(VMART, "unpark", place, "--socket", running.socket)
                self.assertEqual(refused.returncode, code)
                self.assertIn(told, refused.stderr)
            self.assertEqual({at for one in running.where() for at in places(one)}, {"host(0)"})
            self.assertEqual(run(VMART, "unpark", "--socket", running.socket).returncode, 2)

    def places_of(self, running):
        return json.loads(running.control("status", "--json"))["places"]


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
