#!/usr/bin/env python3
"""Tests how rankings are held against each other, on made-up samples and values worked out by hand
or known from elsewhere, and what traces for machines are made of."""

import itertools
import json
import random
import unittest

import rank_order
import ranking
import ranking_traces


def orders_of(first, second):
    return [(rank_order.order(first[i], first[j], 0), rank_order.order(second[i], second[j], 0))
            for i, j in itertools.combinations(range(len(first)), 2)]


class TauB(unittest.TestCase):
    def test_values_from_elsewhere(self):
        # The examples of scipy.stats.kendalltau (its documentation) and of Kendall's own ties.
        self.assertAlmostEqual(rank_order.tau_b(orders_of([12, 2, 1, 12, 2], [1, 4, 7, 1, 0])),
                               -0.47140452079103173)
        self.assertAlmostEqual(rank_order.tau_b(orders_of([1, 2, 3, 4], [1, 2, 4, 3])), 4 / 6)
        self.assertAlmostEqual(rank_order.tau_b(orders_of([1, 1, 2, 3], [1, 2, 3, 4])),
                               5 / (5 * 6) ** 0.5)

    def test_same_and_turned_round(self):
        values = [3, 1, 4, 1.5, 9, 2.6]
        self.assertEqual(rank_order.tau_b(orders_of(values, values)), 1)
        self.assertEqual(rank_order.tau_b(orders_of(values, [-value for value in values])), -1)

    def test_nothing_but_ties_is_no_answer(self):
        self.assertIsNone(rank_order.tau_b(orders_of([1, 1, 1], [1, 2, 3])))

    def test_is_that_of_scipy_where_that_is_there(self):
        try:
            from scipy.stats import kendalltau
        except ImportError:
            self.skipTest("scipy is missing")
        chooser = random.Random(1)
        for _ in range(50):
            first = [chooser.randrange(6) for _ in range(12)]
            second = [chooser.randrange(6) for _ in range(12)]
            self.assertAlmostEqual(rank_order.tau_b(orders_of(first, second)),
                                   kendalltau(first, second, variant="b").statistic)


class Ties(unittest.TestCase):
    def compare(self, machine, model):
        return rank_order.compare(machine, {name: [value] for name, value in model.items()})

    def test_what_the_machine_cannot_tell_apart_counts_neither_way(self):
        machine = {"a": [1.0, 1.2, 1.1], "b": [1.15, 1.16, 1.17], "c": [3, 3, 3]}
        for a, b in ((1, 1.5), (1.5, 1)):
            found = self.compare(machine, {"a": a, "b": b, "c": 3})
            self.assertEqual(found["ties_machine"], 1)
            self.assertEqual(found["tau_b"], 1)
            self.assertEqual(found["wrong"], [])

    def test_a_difference_the_machine_does_not_see_costs_with_own_ties(self):
        machine = {"a": [1.0, 1.2], "b": [1.1, 1.2], "c": [3, 3]}
        found = self.compare(machine, {"a": 1, "b": 2, "c": 3})
        self.assertEqual(found["tau_b"], 1)
        self.assertAlmostEqual(found["tau_b_own_ties"], 2 / (2 * 3) ** 0.5)

    def test_a_pair_as_far_apart_as_the_spread_is_a_tie(self):
        self.assertEqual(self.compare({"a": [1, 2], "b": [2.5, 2.5]}, {"a": 1, "b": 2})
                         ["ties_machine"], 1)
        self.assertEqual(self.compare({"a": [1, 2], "b": [2.51, 2.51]}, {"a": 1, "b": 2})
                         ["ties_machine"], 0)

    def test_the_model_does_not_see_less_than_the_machine_can_tell(self):
        machine = {"a": [9, 10, 11], "b": [20, 20, 20]}
        found = self.compare(machine, {"a": 100, "b": 115})
        self.assertEqual((found["ties_model"], found["agree"]), (1, 0))
        self.assertEqual(found["wrong"], [{"pair": ["a", "b"], "machine": -1, "model": 0}])
        self.assertEqual(self.compare(machine, {"a": 100, "b": 130})["agree"], 1)

    def test_pairs_that_are_turned_round_are_named(self):
        found = self.compare({"a": [1, 1], "b": [2, 2], "c": [3, 3]}, {"a": 1, "b": 3, "c": 2})
        self.assertAlmostEqual(found["tau_b"], 1 / 3)
        self.assertEqual([each["pair"] for each in found["wrong"]], [["b", "c"]])

    def test_what_only_one_has_is_left_out(self):
        found = self.compare({"a": [1], "b": [2], "failed": [3]}, {"a": 1, "b": 2, "other": 0})
        self.assertEqual(found["pairs"], 1)


class Traces(unittest.TestCase):
    def launches(self, events, **how):
        lines = [json.dumps(event) for event in events]
        return [json.loads(line) for line in ranking_traces.as_launches(lines, **how)]

    def test_work_that_lasts_becomes_turns_in_the_order_of_time(self):
        access = {"event": "access", "bytes": 10, "passes": 5, "duration_ns": 900, "use": "read"}
        found = self.launches([{**access, "time_ns": 100, "object": 1},
                               {**access, "time_ns": 200, "object": 2}], launch_bytes=25)
        self.assertEqual([(one["time_ns"], one["object"], one.get("passes", 1)) for one in found],
                         [(100, 1, 2), (200, 2, 2), (400, 1, 2), (500, 2, 2), (700, 1, 1),
                          (800, 2, 1)])
        self.assertNotIn("duration_ns", found[0])

    def test_shares_of_passes_and_times(self):
        found = self.launches(
            [{"event": "alloc", "time_ns": 80, "object": 1, "bytes": 10},
             {"event": "access", "time_ns": 80, "object": 1, "bytes": 10, "use": "write"},
             {"event": "access", "time_ns": 80, "object": 1, "bytes": 10, "passes": 8,
              "duration_ns": 40}], launch_bytes=10, passes_share=0.25, times_share=0.5)
        self.assertEqual([one["event"] for one in found], ["alloc", "access", "access", "access"])
        self.assertEqual([one["time_ns"] for one in found], [40, 40, 40, 60])

    def test_conversations_are_requests_with_a_second_block_in_common(self):
        ids = [[0, 1, 2], [0, 9], [0, 1, 2, 3], [0, 7], [0, 1, 2, 3, 4], [0, 9, 10], [0, 9, 11]]
        lines = [json.dumps({"hash_ids": each}) for each in ids]
        sample = dict(requests=7, turns=3, blocks=5, conversations=2)
        chosen = ranking_traces.sample_conversations(lines, **sample)
        self.assertEqual(chosen, [line for line in lines if line != lines[3]])
        chosen = ranking_traces.sample_conversations(lines, **{**sample, "blocks": 4})
        self.assertEqual(chosen, [lines[1], lines[5], lines[6]])
        chosen = ranking_traces.sample_conversations(lines, **{**sample, "conversations": 1})
        self.assertEqual(len(chosen), 3)

    def test_steps_wait_for_all_gpus_and_blocks_go_round(self):
        events = list(ranking_traces.steps_of(gpus=2, phases=2, steps=1, block_bytes=3,
                                              chunk_bytes=2, launch_bytes=2, compute_us=5))
        tasks = {event["task"]: event for event in events if event["event"] == "task"}
        self.assertEqual({task: event.get("after", []) for task, event in tasks.items()},
                         {1: [], 2: [1], 3: [], 4: [3], 5: [2, 4], 6: [5], 7: [2, 4], 8: [7]})
        self.assertEqual([tasks[task].get("compute_ns") for task in (1, 2)], [None, 5000])
        read = [(event["task"], event["object"], event["offset"], event["bytes"])
                for event in events if event["event"] == "access"]
        self.assertEqual(read, [(1, 0, 0, 2), (1, 0, 2, 1), (3, 1, 0, 2), (3, 1, 2, 1),
                                (5, 1, 0, 2), (5, 1, 2, 1), (7, 0, 0, 2), (7, 0, 2, 1)])


class Runs(unittest.TestCase):
    def test_a_run_that_fails_or_hangs_is_an_error_with_its_reason(self):
        with self.assertRaisesRegex(RuntimeError, "status 3: no room"):
            ranking.run_json(["sh", "-c", "echo no room >&2; exit 3"], {}, 60)
        with self.assertRaisesRegex(RuntimeError, "not over after 0 s"):
            ranking.run_json(["/bin/sleep", "600"], {}, 0.1)

    def test_the_table_has_what_was_measured_and_what_was_foretold(self):
        sample = {"workload": "w", "policy": "p", "moves": 3}
        document = {"workloads": {"w": {}}, "failed": [],
                    "samples": [{**sample, "seconds": 2.0}, {**sample, "seconds": 4.0},
                                {**sample, "seconds": 2.5}],
                    "replays": [{**sample, "moves": 4, "seconds": 2.0}]}
        self.assertEqual(list(ranking.rows_of(document, "w")),
                         [["`p`", "2.500", "2.000", "2.000", "0.80", "3", "4"]])


class Together(unittest.TestCase):
    @staticmethod
    def document(seconds, parameters):
        return {"context": {"date": str(seconds)}, "workloads": {"w": {"parameters": parameters}},
                "failed": [], "samples": [{"workload": "w", "policy": "p", "seconds": seconds}]}

    def test_runs_of_several_files_are_repeats(self):
        both = ranking.together([self.document(1, {}), self.document(3, {})])
        self.assertEqual(ranking.seconds_of(both["samples"], "w"), {"p": [1, 3]})
        self.assertEqual(both["other_contexts"], [{"date": "3"}])

    def test_files_of_other_workloads_are_refused(self):
        with self.assertRaises(SystemExit):
            ranking.together([self.document(1, {}), self.document(3, {"rounds": 2})])


if __name__ == "__main__":
    unittest.main()
