"""Memory that a program maps itself moves under `vmart run --vmm`, and the program sees what it sees
without. mapping_test.py VMART PROGRAM"""

import json
import random
import sys
import unittest

from run_test import PROGRAM, Running, VMART, places, run

PLACES = ("gpu1", "host0", "gpu0")
SHOWN = {"gpu1": "gpu(1)", "host0": "host(0)", "gpu0": "gpu(0)"}
WORKS = ("regions", "segments", "sleep", "handles")


def move(running, place):
    """Moves everything, unless something is shared at this moment, which must not move."""
    try:
        running.control("migrate", "run", place)
    except AssertionError as refusal:
        if "pinned: " not in str(refusal):
            raise


class Mappings(unittest.TestCase):
    def test_look_the_same_with_nothing_moving(self):
        for work in WORKS:
            with self.subTest(work=work):
                bare = run(PROGRAM, "linked", work)
                self.assertEqual(bare.returncode, 0, bare.stdout + bare.stderr)
                self.assertIn("done\n", bare.stdout)
                for option in ("--vmm", "--no-vmm"):
                    under = run(VMART, "run", option, "--", PROGRAM, "linked", work,
                                VMART_CONTROL="0")
                    self.assertEqual(under.stderr, "")
                    self.assertEqual((under.returncode, under.stdout), (0, bare.stdout), option)

    def test_move_beside_the_work(self):
        for work in WORKS:
            with self.subTest(work=work), Running("linked", work, "--vmm") as running:
                choose = random.Random(work)
                seen = set()
                for tries in range(100):
                    if tries >= 12 and seen >= {"gpu(1)", "host(0)"}:
                        break
                    move(running, choose.choice(PLACES))
                    seen |= {at for one in running.where() for at in places(one)}
                move(running, "gpu1")
                self.assertLessEqual({"gpu(1)", "host(0)"}, seen)
                self.assert_prints_the_same(running, work)

    def test_know_where_they_were_created(self):
        with Running("linked", "sleep", "--vmm", "--sites", VMART_RUN_SITE_BYTES=str(4 << 20)) as running:
            sites = {one["bytes"] >> 20: one["site"] for one in running.where()}
            self.assertEqual(sites[2], "")
            for mib in (4, 6):
                self.assertIn("run_mapping_program", sites[mib].split(" < ")[0])
            self.assert_prints_the_same(running, "sleep")

    def test_keep_to_a_limit(self):
        # Of 46 MiB, with what vmart itself needs.
        patient = {"VMART_PRESSURE_LIMIT_MS": "60000"}
        with Running("linked", "segments", "--vmm", "--capacity", "gpu0=48MiB", **patient) as running:
            memory = running.where()
            self.assertLessEqual(sum(one["bytes_at"].get("gpu(0)", 0) for one in memory), 48 << 20)
            self.assertIn("gpu(1)", {at for one in memory for at in places(one)})
            self.assert_prints_the_same(running, "segments")

    def test_regions_move_completely(self):
        with Running("linked", "regions", "--vmm") as running:
            self.assertEqual(sorted(one["bytes"] >> 20 for one in running.where()), [6, 6, 260])
            for place in ("gpu1", "host0", "gpu0"):
                running.control("migrate", "run", place)
                self.assertEqual({at for one in running.where() for at in places(one)},
                                 {SHOWN[place]})
            self.assert_prints_the_same(running, "regions")

    def test_status_tells_what_is_served_and_what_is_not(self):
        # The second one has 2 MiB that come and go.
        expected = {"regions": ((272,), 0), "handles": ((16, 18), 2)}
        for work, (served, left) in expected.items():
            with self.subTest(work=work), Running("linked", work, "--vmm") as running:
                status = json.loads(running.control("status", "--json"))
                self.assertIn(status["backing_bytes"] >> 20, served)
                self.assertEqual(status["passed_bytes"] >> 20, left)
                self.assertRegex(running.control("status"), "mapped +by the program itself: .*MiB "
                                                            "of vmart, .* of the driver")
                self.assert_prints_the_same(running, work)

    def test_stay_the_drivers_unless_asked_for(self):
        with Running("linked", "sleep") as running:
            self.assertFalse(running.socket.exists(), "vmart was loaded for nothing")
            self.assert_prints_the_same(running, "sleep")
        with Running("linked", "sleep", "--vmm", "--exclude", "run_mapping") as running:
            self.assertFalse(running.socket.exists(), "vmart was loaded for nothing")
            self.assert_prints_the_same(running, "sleep")
        with Running("linked", "sleep", "--vmm", "--min", "5MiB") as running:
            self.assertEqual({one["bytes"] >> 20 for one in running.where()}, {6})
            status = json.loads(running.control("status", "--json"))
            self.assertEqual((status["backing_bytes"] >> 20, status["passed_bytes"] >> 20), (6, 10))
            self.assert_prints_the_same(running, "sleep")

    def assert_prints_the_same(self, running, work):
        # Moves need memory of the runtime's own, so how much is free in the end differs.
        def lines(text):
            return [line for line in text.splitlines() if not line.startswith("freed: ")]

        self.assertEqual(lines(running.end()), lines(run(PROGRAM, "linked", work).stdout))
        self.assertEqual(running.errors(), "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
