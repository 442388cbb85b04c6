"""Calls that the driver refuses are refused under `vmart run`, and change nothing. refusals_test.py VMART PROGRAM"""

import re
import sys
import unittest

from run_test import PROGRAM, VMART, Running, places, run


def bare(work):
    done = run(PROGRAM, work)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Refusals(unittest.TestCase):
    def test_are_those_of_the_driver(self):
        for work in ("broken", "captures", "orphans", "primary", "mappings", "synchronous",
                     "primary_synchronous"):
            for options in ((), ("--pools", "--vmm")):
                with self.subTest(work=work, options=options):
                    under = run(VMART, "run", *options, "--", PROGRAM, work, VMART_CONTROL="0")
                    self.assertEqual((under.returncode, under.stdout), (0, bare(work)))
                    if work != "broken":
                        self.assertEqual(under.stderr, "")

    def test_say_what_the_simulated_driver_must_say(self):
        # As the driver: the error stays, a global capture forbids all threads what a local one forbids its own.
        broken = bare("broken").splitlines()
        self.assertEqual({line.split(": ")[1] for line in broken}, {"700"})
        captures = bare("captures").splitlines()
        self.assertEqual(captures.count("here: allocates 900, frees 900"), 2)
        self.assertEqual(captures.count("in another thread: allocates 900, frees 900"), 1)
        self.assertEqual([line for line in captures if line.endswith("901")],
                         ["mode 1 ends with 901"] + 2 * ["mode 0 ends with 901"])
        self.assertEqual(len(re.findall(r"\): 1\n", bare("mappings"))), 4)
        self.assertEqual(bare("primary").count("Release(1): 201\n"), 3)

    def test_do_not_end_the_moving(self):
        for work in ("orphans", "primary", "mappings"):
            with self.subTest(work=work), Working(work) as running:
                for place in ("gpu1", "host0", "gpu0", "gpu1"):
                    running.control("migrate", "run", place)
                self.assertEqual({at for one in running.where() for at in places(one)}, {"gpu(1)"})
                self.assertEqual(running.end(), bare(work))
                self.assertEqual(running.errors(), "")

    def test_memory_with_synchronous_copies_stays_until_it_has_none(self):
        for work in ("synchronous", "primary_synchronous"):
            with self.subTest(work=work), Working(work) as running:
                self.assertEqual([one["movable"] for one in running.where()], [False, False])
                running.go_on()
                self.assertEqual([one["movable"] for one in running.where()], [True, True])
                running.control("migrate", "run", "gpu1")
                self.assertEqual(running.end(), bare(work))


class Working(Running):
    """The program, which waits for a line."""

    def __init__(self, work):
        super().__init__("", "", command=(str(PROGRAM), work))

    def go_on(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        while not self._begin.endswith("ready\n") or self._begin.count("ready\n") < 2:
            self._begin += self._process.stdout.readline()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
