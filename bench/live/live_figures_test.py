#!/usr/bin/env python3
"""Tests the tables of live moves on made-up samples: bars met and missed, pooled values, failures."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))
import live_figures
import run
from harness.samples import Measurements, table

HEADLINE = "live/stall/streams4/kernel5us/backlog1/256MiB"


def document(results, failed=(), **context):
    return {
        "context": {"gpu_count": 2, "live": True, **context}, "failed": list(failed),
        "results": [{"name": name, "processes": 1, "samples_us": [1.0],
                     "counters": {key: [value] for key, value in counters.items()},
                     "series": series}
                    for name, counters, series in results]}


def bars_of(results, **others):
    rows = live_figures.bar_rows(Measurements(document(results, **others)))
    return {row[0]: row for row in rows if row[1] != "not measured"}


class Bars(unittest.TestCase):
    STALL = "stall, 256MiB HBM to HBM, few tiles dirty, median / p99 / max"

    def stall(self, values, **others):
        return bars_of([(HEADLINE, {"moves": len(values)}, {"stall_us": values})], **others)[self.STALL]

    def test_stall_is_held_against_the_median_and_p99_of_all_values(self):
        self.assertEqual(self.stall([280.0] * 99 + [500.0])[3], "met")
        self.assertEqual(self.stall([281.0] * 100)[3], "MISSED")
        self.assertEqual(self.stall([200.0] * 97 + [501.0] * 3)[3], "MISSED")
        self.assertIn("501 us of 100", self.stall([200.0] * 97 + [501.0] * 3)[1])

    def test_four_gpus_have_a_bar_of_their_own(self):
        self.assertEqual(self.stall([330.0] * 10, gpu_count=4)[3], "met")
        self.assertEqual(self.stall([331.0] * 10, gpu_count=4)[3], "MISSED")

    def test_size_compares_medians_and_p99(self):
        small = {"stall_median_us": 200, "stall_p99_us": 300, "stall_max_us": 400, "stall_count": 9}

        def row(way, note, median, p99):
            large = {"stall_median_us": median, "stall_p99_us": p99, "stall_max_us": 900,
                     "stall_count": 9}
            return bars_of([(f"live/size/{way}/256MiB", small, {}),
                            (f"live/size/{way}/16GiB", large, {})])[
                f"stall moving 16GiB against 256MiB, {note}, median / p99"]
        for way, note in (("live_budget", "stall budget 60 ms a second"), ("live", "no stall budget")):
            self.assertEqual(row(way, note, 220, 450)[3], "met")
            self.assertEqual(row(way, note, 221, 450)[3], "MISSED")
            self.assertEqual(row(way, note, 220, 451)[3], "MISSED")

    def test_an_attached_stream_launches_as_one_that_is_not(self):
        def verdict(median):
            counters = {"alone_low_us": 2.0, "alone_median_us": 2.1, "alone_high_us": 2.3,
                        "attached_low_us": 2.0, "attached_median_us": median, "attached_high_us": 3}
            rows = bars_of([("live/attach/launch", counters, {})])
            return rows["a launch on a stream that is attached / is not"][3]
        self.assertEqual(verdict(2.3), "met")
        self.assertEqual(verdict(2.31), "MISSED")

    def test_rate_is_of_the_raw_copy_of_the_same_process(self):
        def row(rate):
            counters = {"rate_gb_s": rate, "raw_gb_s": 400, "lost_share": 0.3}
            return bars_of([("live/rate/warm/16GiB", counters, {})])[
                "rate of 16GiB live, warm cache, against the raw copy"]
        self.assertEqual(row(300)[3], "met")
        self.assertEqual(row(299)[3], "MISSED")
        self.assertIn("loses 30.0 %", row(300)[1])

    def test_budget_is_met_when_all_three_are(self):
        def verdict(gated, others, rate):
            counters = {"gated_lost_share": gated, "others_lost_share": others, "rate_gb_s": rate}
            rows = bars_of([("live/budget/latency/16GiB", counters, {})])
            return next(iter(rows.values()))[3]
        self.assertEqual(verdict(0.08, 0.04, 60), "met")
        self.assertEqual(verdict(0.09, 0.04, 60), "MISSED")
        self.assertEqual(verdict(0.08, 0.05, 60), "MISSED")
        self.assertEqual(verdict(0.08, 0.04, 59), "MISSED")

    def test_draining_is_judged_with_four_gpus_only(self):
        counters = {"rate_gb_s": 300, "egress_gb_s": 400, "targets": 3}
        results = [("live/drain/held/at_once/32GiB", counters, {})]
        what = "draining a GPU, held, at once, against its egress"
        self.assertEqual(bars_of(results)[what][3], "")
        self.assertEqual(bars_of(results, gpu_count=4)[what][3], "MISSED")

    def test_a_hang_is_a_bar_missed(self):
        failed = [{"step": "live_beside_threads", "reason": "HANG: ended after 240 s"}]
        what = "live moves beside threads: stall median / p99 / max"
        self.assertEqual(bars_of([], failed=failed)[what][3], "MISSED")
        counters = {"moves": 990, "busy": 10, "stall_median_us": 1, "stall_p99_us": 1,
                    "stall_max_us": 1}
        results = [("live/beside/threads/256MiB", counters, {})]
        self.assertEqual(bars_of(results)[what][3], "?")  # Nothing allocated beside.
        counters["cuda_mallocs"] = 5
        self.assertEqual(bars_of(results)[what][3], "met")

    def test_collectives_may_lose_five_in_a_hundred_and_no_sum(self):
        counters = {"moves": 495, "busy": 5, "retries": 100, "chunks_live": 495,
                    "lost_share": 0.05, "moves_per_s": 90}
        results = [("live/nccl/live/64MiB", counters, {"stall_us": [200, 300, 400]})]

        def row(way, **others):
            return bars_of(results, **others)[
                f"{way} moves beside NCCL all-reduces: tries a move; time lost"]
        self.assertEqual(row("live")[3], "met")
        self.assertIn("1.20; 5.0 % at 90 moves/s; 495 moved, 495 chunks live, 5 busy", row("live")[1])
        hang = [{"step": "live_nccl", "reason": "HANG: ended after 240 s"}]
        self.assertEqual(row("live", failed=hang)[3], "met")  # It was the other that hung.
        self.assertEqual(row("held", failed=hang)[3], "MISSED")
        counters["lost_share"] = 0.051
        self.assertEqual(row("live")[3], "MISSED")
        counters.update(lost_share=0.01, moves=100)
        self.assertEqual(row("live")[3], "?")  # Fewer than asked for.
        wrong = [{"step": "live_nccl", "reason": "live/nccl/live/64MiB: 3 words are wrong"}]
        results.clear()
        self.assertEqual(row("live", failed=wrong)[3], "MISSED")


class Tables(unittest.TestCase):
    def test_reasons_leave_out_those_that_tell_of_another_way(self):
        counters = {"moves": 2, "busy": 1, "bytes_twice": 2 << 20, "reason_predicted_skew": 3,
                    "reason_other_way": 9}
        measured = Measurements(document([(HEADLINE, counters, {})]))
        row = live_figures.stall_rows(measured)[0]
        self.assertEqual(row[0], "streams4/kernel5us/backlog1/256MiB")
        self.assertEqual(row[3], "none")
        self.assertEqual(row[5:], ["1.0", "predicted_skew 3"])

    def test_every_table_is_made_of_an_empty_document(self):
        measured = Measurements(document([]))
        for headers, rows_of in live_figures.TABLES.values():
            table(headers, rows_of(measured))


class Gathering(unittest.TestCase):
    def test_values_of_processes_are_pooled_and_a_course_is_not(self):
        runner = run.Runner.__new__(run.Runner)
        runner.results = {name: {"name": name} for name in ("a", "b")}
        lines = [{"name": "a", "stall_us": [1.004, 2]}, {"name": "b", "at_ms": [1], "rate": [5]},
                 {"name": "a", "stall_us": [3]}, {"name": "b", "at_ms": [2], "rate": [6]},
                 {"name": "unknown", "stall_us": [9]}]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "series.jsonl"
            path.write_text("\n".join(json.dumps(line) for line in lines))
            runner._gather_series(path)
            runner._gather_series(path.with_name("none"))
        self.assertEqual(runner.results["a"]["series"], {"stall_us": [1.0, 2, 3]})
        self.assertEqual(runner.results["b"]["series"], {"at_ms": [1], "rate": [5]})


if __name__ == "__main__":
    unittest.main()
