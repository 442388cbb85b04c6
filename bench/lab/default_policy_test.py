"""Goal: default_policy.py counts cells in which a policy is worse than static, with the sets apart, and by
the time that its loop can change."""

import pathlib
import tempfile
import unittest

import default_policy

TUNED, TEST = "g10 VIT bs1280", "dlrm 2022"  # By their names.


def row(trace, policy, seconds, cost, regret="", bound="", machine="m half", kind="real", lost=0):
    return dict(zip(default_policy.KEPT, (machine, trace, kind, policy, seconds, cost, cost, lost, bound,
                                          regret)))


# Closed: 11 s are 1.1 of the bound of 10 s. Open: the bound limits cost, and 3 s never change.
ROWS = [row(TUNED, "static", 10.0, 50.0, 0.0, 10.0), row(TUNED, "p", 11.0, 40.0, 0.1, 10.0),
        row(TEST, "static", 3.0, 20.0, 0.25, 16.0), row(TEST, "p", 3.0, 20.1, 0.25625, 16.0),
        row(TEST, "static", 3.0, 20.0, machine="m ample"),
        row(TEST, "p", 3.0, 90.0, bound=16.0, machine="m ample", lost=2),
        row("drift", "static", 3.0, 20.0, kind="synthetic"), row("drift", "p", 3.0, 5.0, kind="synthetic")]


class Tables(unittest.TestCase):
    def setUp(self):
        self.cells = [default_policy.Cell(each) for each in ROWS]
        self.comparison = default_policy.Comparison(self.cells)

    def test_compare_makespans_of_closed_loops_and_costs_of_open_ones(self):
        ratios = self.comparison.ratios("p", lambda _: True)
        self.assertAlmostEqual(ratios["m half", TUNED], 1.1)
        self.assertAlmostEqual(ratios["m half", TEST], 1.005)
        self.assertAlmostEqual(ratios["m half", "drift"], 0.25)
        self.assertNotIn(("m ample", TEST), ratios, "accesses were lost: it did less work")

    def test_keep_the_sets_apart(self):
        self.assertEqual(default_policy.summary_row(self.comparison, "p"),
                         ["`p`", "1 of 1", "1.100", "0 of 1", "1.005", "1.256", "-", "0.250"])

    def test_are_the_same_of_what_was_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "kept.csv"
            default_policy.keep(self.cells, path)
            self.assertEqual(len(default_policy.read_cells(path)), len(ROWS))
            self.assertEqual(default_policy.tables(default_policy.read_cells(path)),
                             default_policy.tables(self.cells))


if __name__ == "__main__":
    unittest.main()
