#!/usr/bin/env python3
"""The tables of an experiment, and the means over seeds in them: table_test.py VMART_LAB. The quantiles of
Student's distribution are those of the usual tables: t(0.975) is 12.706 with 1 degree of freedom, 2.776 with 4."""

import builtins
import csv
import math
import unittest
from unittest import mock

import rig
from vmart.lab import ExperimentError
from vmart.lab.experiments.experiment import Machine, Trace, cell_of
from vmart.lab.experiments.fields import shortest
from vmart.lab.experiments.table import ResultsTable, csv_text, finished_cell, spread_of
from vmart.lab.experiments.worker import Worker

PROGRAM = rig.program_argument()


def line_of(metrics, bound="null", regret="null"):
    return (f'{{"cell":{{"id":"x","trace":"\\",\\"report\\":"}},"metrics":{metrics},"bound":{bound},'
            f'"regret":{regret},"report":{{"inputs":{{"seed":1}},"windows":[]}}}}\n').encode()


WHOLE = line_of('{"seconds":1.1000000000000001E0,"moves":3,"rest_s":null,"links":{"gpu(0) hbm":5E-1},'
                '"x":4.742589867636229E2}', '{"lower_bound_s":2.5E-1}', "3.4E0")


class Cells(unittest.TestCase):
    def test_scalars_are_in_the_shortest_form_that_is_the_same_number(self):
        inputs, finished = finished_cell(WHOLE)
        self.assertEqual([(name, shortest(value)) for name, value in finished.metrics.items()],
                         [("seconds", "1.1"), ("moves", "3"), ("rest_s", ""), ("x", "474.2589867636229")])
        self.assertEqual((finished.measure, finished.others),
                         ("cost_s", {"time_s": None, "lower_bound_s": 0.25, "plan_s": None, "regret": 3.4, "over_plan": None}))
        self.assertEqual(inputs, {"seed": 1})
        for number, text in ((1e15, "1000000000000000"), (1e16, "1e+16"), (1e-4, "0.0001"), (1e-5, "1e-05"),
                             (2.0, "2"), (-0.0, "-0"), (7, "7"), (True, "true"), ("2s", "2s"), ([], ""), (None, "")):
            self.assertEqual(shortest(number), text)

    def test_what_is_cut_anywhere_is_none(self):
        for left in range(len(WHOLE)):
            self.assertIsNone(finished_cell(WHOLE[:left]), left)
        for other in (b"[]\n", b"{}\n", WHOLE + b"x\n", WHOLE.replace(b'"regret"', b'"regrets"')):
            self.assertIsNone(finished_cell(other))


class WithTable(unittest.TestCase):
    def setUp(self):
        worker = Worker(PROGRAM)
        self.addCleanup(worker.close)
        self.table = ResultsTable(lambda freedom: worker.ask("t_point", freedom=freedom)["t_point"])


class Tables(WithTable):
    machine = Machine('a, "b"', {})

    def set(self, number, trace, policy, seed, line, kind="real"):
        trace = Trace(trace, "", "generate", "", "", (), kind)
        self.table.set(number, cell_of(self.machine, trace, policy, "hash", seed), finished_cell(line)[1], "x.json")

    def summary(self):
        return self.table.summary().splitlines()

    def test_there_is_a_row_for_each_result_in_the_order_of_the_cells(self):
        self.assertEqual(self.table.csv(), "")
        self.set(2, "u", "p:x=1,y=2", 7, line_of('{"moves":1}'), "held_out")
        self.set(0, "t", "p", 7, line_of('{"moves":1}'))
        head, first, second = self.table.csv().splitlines()
        self.assertEqual(head, "id,machine,trace,kind,policy,router,seed,moves,measure,time_s,lower_bound_s,plan_s,regret,"
                         "over_plan,bound_tight")
        self.assertTrue(first.endswith(',"a, ""b""",t,real,p,hash,7,1,cost_s,,,,,,'), first)
        self.assertTrue(second.endswith(',"a, ""b""",u,held_out,"p:x=1,y=2",hash,7,1,cost_s,,,,,,'), second)

    def test_other_metrics_are_refused(self):
        self.set(0, "t", "p", 1, line_of('{"moves":1}'))
        with self.assertRaisesRegex(ExperimentError, "x.json: has other metrics than"):
            self.set(1, "t", "p", 2, line_of('{"moved":1}'))

    def test_seeds_of_one_thing_are_summed_up(self):
        self.set(2, "t", "p", 3, line_of('{"cost_s":2E0,"stall_s":0,"bytes_moved":7,"rest_s":null}'))
        self.set(1, "t", "other", 1, line_of('{"cost_s":9E0,"stall_s":0,"bytes_moved":7,"rest_s":null}'))
        self.set(0, "t", "p", 1, line_of('{"cost_s":2E0,"stall_s":0,"bytes_moved":7,"rest_s":5E-1}', "null", "2.5E-1"))
        head, first, second = self.summary()
        self.assertTrue(head.startswith("machine,trace,policy,router,seeds,measure,time_s_mean,time_s_half_width,time_s_n,"))
        self.assertEqual(first, '"a, ""b""",t,p,hash,2,cost_s,2,0,2,,,0,,,0,,,0,0,0,2,7,0,2,0.5,,1')
        self.assertEqual(second, '"a, ""b""",t,other,hash,1,cost_s,9,,1,,,0,,,0,,,0,0,,1,7,,1,,,0')

    def test_a_closed_loop_is_measured_by_its_makespan(self):
        metrics = '{"seconds":3E0,"cost_s":9E0,"access_move_s":8E0,"requests":%d}'
        bound = '{"lower_bound_s":2E0,"plan_s":4E0,"metric":"%s"}'
        for line, told in ((line_of(metrics % 0, bound % "seconds", "5E-1"), ("seconds", 3, 0.75)),
                           (line_of(metrics % 0, bound % "access_move_s", "3E0"), ("cost_s", 9, 2)),
                           (line_of(metrics % 7), ("seconds", 3, None)), (line_of(metrics % 0), ("cost_s", 9, None)),
                           (line_of(metrics % 0).replace(b'"id":', b'"measure":"seconds","id":'), ("seconds", 3, None))):
            finished = finished_cell(line)[1]
            self.assertEqual((finished.measure, finished.others["time_s"], finished.others["over_plan"]), told)

    def test_regret_is_summed_up_over_tight_bounds_only(self):
        metrics, bound = '{"cost_s":2E0}', '{"lower_bound_s":1E0,"plan_s":3E0,"gap":2E0,"kind":"event"}'
        self.set(0, "t", "p", 1, line_of(metrics, bound, "3E-1"))
        self.set(1, "t", "p", 2, line_of(metrics, bound, "5E-1"))
        self.set(2, "t", "q", 1, line_of(metrics, bound, "1E-1"))  # So near is this policy with seed 1.
        rows = {row["policy"]: row for row in csv.DictReader(self.summary())}
        self.assertEqual([(rows[policy]["regret_mean"], rows[policy]["regret_n"]) for policy in "pq"],
                         [("0.3", "1"), ("0.1", "1")])
        table = list(csv.DictReader(self.table.csv().splitlines()))
        self.assertEqual([row["bound_tight"] for row in table], ["1", "0", "1"])

    def test_quotes_are_those_of_rfc_4180(self):
        for plain in ("plain text", "", "é", "'"):
            self.assertEqual(csv_text([["x", plain]]), f"x,{plain}\n")
        for text in ("a,b", "a\nb\r", "a\rb", "a\"b"):
            self.assertEqual(csv_text([["x", text]]), 'x,"{}"\n'.format(text.replace('"', '""')))


class Spreads(WithTable):
    def spread(self, *values):
        return spread_of(values, self.table.t_point)

    def test_of_five_values(self):
        mean, half = self.spread(2.0, 4.0, 4.0, 5.0, 5.0)
        self.assertEqual(mean, 4)
        self.assertAlmostEqual(half, 2.776445 * math.sqrt(1.5 / 5), places=6)

    def test_of_two_values_it_is_wide(self):
        mean, half = self.spread(1.0, 3.0)
        self.assertEqual(mean, 2)
        self.assertAlmostEqual(half, 12.7062047, places=6)

    def test_of_equal_values_there_is_none(self):
        self.assertEqual(self.spread(7.0, 7.0, 7.0), (7, 0))

    def test_of_one_value_nothing_is_known_but_itself(self):
        self.assertEqual(self.spread(3.0), (3, None))
        self.assertEqual(self.spread(), (None, None))

    def test_values_are_added_in_order(self):
        self.assertEqual(self.spread(1e16, 1.0, -1e16)[0], 0)
        with mock.patch.object(builtins, "sum", math.fsum):  # As good as the `sum` of Python 3.12 and later.
            self.assertEqual(self.spread(1e16, 1.0, -1e16)[0], 0)


if __name__ == "__main__":
    unittest.main()
