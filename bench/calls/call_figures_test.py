#!/usr/bin/env python3
"""Tests what is computed from samples, on made-up ones: bars, spreads, tables, the report."""

import io
import contextlib
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))
import call_figures
import report
import run
from harness.samples import Measurements, write_document


def document(results, **context):
    return {
        "context": {"gpu_count": 2, "gpus": ["A", "A"], "driver": "cuda", "driver_version": "1",
                    "cpu": "C", "cores": 2, "date": "D", "commit": "abc", "changed": False, "seed": 7,
                    "command": "bench/run.py", **context},
        "failed": [], "left_out": [], "open_cost": [],
        "results": [{"name": name, "processes": 3, "samples_us": samples, "counters": counters}
                    for name, samples, counters in results]}


def bars_of(results, **context):
    rows = call_figures.bar_rows(Measurements(document(results, **context)))
    return {row[0]: row for row in rows if row[1] != "not measured"}


class Bars(unittest.TestCase):
    COPY = ("raw_copy/gpu0-gpu1/1GiB", [99, 100, 101], {})

    def row(self, *others):
        return bars_of([self.COPY, *others])

    def test_ratio_at_the_bar_is_met_and_above_is_missed(self):
        what = "1GiB gpu0-gpu1, warm cache / raw copy"
        self.assertEqual(self.row(("migrate/warm/gpu0-gpu1/1GiB", [115], {}))[what][3], "met")
        self.assertEqual(self.row(("migrate/warm/gpu0-gpu1/1GiB", [116], {}))[what][3], "MISSED")

    def test_prefetch_must_be_slower_by_its_factor(self):
        what = "1GiB gpu0-gpu1, managed prefetch / warm cache"
        ours = ("migrate/warm/gpu0-gpu1/1GiB", [100], {})
        self.assertEqual(self.row(ours, ("prefetch/gpu0-gpu1/1GiB", [171], {}))[what][3], "met")
        self.assertEqual(self.row(ours, ("prefetch/gpu0-gpu1/1GiB", [169], {}))[what][3], "MISSED")

    def test_faster_means_beyond_the_quartiles(self):
        what = "1GiB gpu0-gpu1, warm cache, naive alone"
        naive = ("naive/alone/gpu0-gpu1/1GiB", [100, 110, 120], {})
        near = ("migrate/warm/gpu0-gpu1/1GiB", [90, 104, 116], {})
        far = ("migrate/warm/gpu0-gpu1/1GiB", [90, 91, 92], {})
        self.assertEqual(bars_of([naive, near])[what][3], "MISSED")
        self.assertEqual(bars_of([naive, far])[what][3], "met")

    def test_dark_time_has_a_bar_for_each_number_of_gpus(self):
        counters = {"dark_median_us": [200], "dark_p99_us": [300], "dark_max_us": [900], "moves": [1000]}
        results = [("migrate/dark/gpu0-gpu1/256MiB", [200], counters)]
        what = "dark time, gpu0-gpu1/256MiB"
        self.assertEqual(bars_of(results)[what][3], "MISSED")
        self.assertEqual(bars_of(results, gpu_count=4)[what][3], "met")

    def test_first_alloc_counts_its_worst_sample_by_chunk(self):
        what = "first alloc of 4GiB, fresh runtime"
        self.assertEqual(bars_of([("first_alloc/4GiB", [10, 15999], {})])[what][3], "met")
        self.assertEqual(bars_of([("first_alloc/4GiB", [10, 16001], {})])[what][3], "MISSED")

    def test_stress_without_cuda_beside_it_does_not_meet_the_bar(self):
        counters = {"moves": [1000], "busy": [0], "wall_median_us": [1], "wall_p99_us": [1],
                    "wall_max_us": [1]}
        what = "1 000 moves beside launches, cudaMalloc, cudaFree, synchronise"
        self.assertEqual(bars_of([("hold_stress/64MiB", [1], counters)])[what][3], "?")
        counters["cuda_mallocs"] = [50]
        self.assertEqual(bars_of([("hold_stress/64MiB", [1], counters)])[what][3], "met")


class FirstMoves(unittest.TestCase):
    @staticmethod
    def step(name, used, cached=0, **more):
        mib = 2 ** 20
        place = {"own_bytes": 0, "cached_bytes": cached * mib, "allocated_bytes": 256 * mib}
        return {"program": "first_move sync", "step": name, "places": {"gpu(0)": place, "host(0)": place},
                "used_mib": {"gpu0": used}, **more}

    def rows(self, first_ms, used):
        steps = [self.step("before", 0), self.step("alloc and reserve", 800),
                 self.step("first move", used, cached=256, ms=first_ms), self.step("second move", used, cached=256, ms=1)]
        measured = Measurements({**document([]), "open_cost": steps})
        return {row[0]: row[1:] for row in call_figures.bar_rows(measured)}

    def test_time_and_memory_have_bars(self):
        rows = self.rows(15, 800 + 256 + 64)
        self.assertEqual(rows["256 MiB, first move of a process"], ["median 15.0 ms, max 15.0 ms", "max <= 15 ms", "met"])
        self.assertEqual(rows["256 MiB, second move of a process"][1:], ["shown", ""])
        self.assertEqual(rows["HBM that a process has taken, first_move sync"], ["gpu0: 64 MiB", "<= 64 MiB", "met"])
        rows = self.rows(15.1, 800 + 256 + 65)
        self.assertEqual(rows["256 MiB, first move of a process"][2], "MISSED")
        self.assertEqual(rows["HBM that a process has taken, first_move sync"][2], "MISSED")


class Gathering(unittest.TestCase):
    def test_repetitions_become_samples_of_one_name(self):
        runner = run.Runner.__new__(run.Runner)
        runner.results, runner.failed = {}, []
        entry = {"run_type": "iteration", "real_time": 2.0, "time_unit": "ms", "dark_us": 5.0}
        tail = "/iterations:1/repeats:2/manual_time"
        entries = [{**entry, "name": "migrate/warm/gpu0-gpu1/1GiB" + tail},
                   {**entry, "name": "migrate/warm/gpu0-gpu1/1GiB" + tail},
                   {**entry, "name": "registry/independent/threads2/1000/iterations:20/threads:2"},
                   {"name": "x/1GiB" + tail, "run_type": "iteration", "error_occurred": True,
                    "error_message": "why"},
                   {"name": "migrate", "run_type": "aggregate"}]
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out.json"
            out.write_text(json.dumps({"benchmarks": entries}))
            runner.gather("step", out)
        self.assertEqual(sorted(runner.results),
                         ["migrate/warm/gpu0-gpu1/1GiB", "registry/independent/threads2/1000"])
        result = runner.results["migrate/warm/gpu0-gpu1/1GiB"]
        self.assertEqual(result["samples_us"], [2000.0, 2000.0])
        self.assertEqual((result["processes"], result["counters"]), (1, {"dark_us": [5.0, 5.0]}))
        self.assertEqual(runner.failed, [{"step": "step", "reason": "x/1GiB: why"}])

    def test_a_process_that_was_ended_leaves_its_whole_entries(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out.json"
            out.write_text('{"context": {}, "benchmarks": [\n{"name": "a"},\n{"name": "b"},\n')
            self.assertEqual([entry["name"] for entry in run.read_entries(out)], ["a", "b"])
            self.assertEqual(run.read_entries(pathlib.Path(folder) / "none.json"), [])

    def test_a_written_document_can_be_read_again(self):
        made = document([("raw_copy/gpu0-gpu1/1GiB", [1.5], {}), ("alloc_free/2MiB", [2], {})])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "new" / "out.json"
            write_document(path, made, "results")
            self.assertEqual(json.loads(path.read_text()), made)
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                run.print_summary(made)
        self.assertIn("alloc_free/2MiB", printed.getvalue())


class Report(unittest.TestCase):
    def test_only_the_marked_place_is_rewritten_and_a_second_time_changes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            report.SAMPLES = pathlib.Path(folder)
            (report.SAMPLES / "two.json").write_text(
                json.dumps(document([("raw_copy/gpu0-gpu1/1GiB", [2704.0], {})])))
            text = "before\n<!-- bench:begin two:all -->\nold\n<!-- bench:end -->\nafter\n"
            written = report.rewrite(text)
            self.assertTrue(written.startswith("before\n<!-- bench:begin two:all -->\n"))
            self.assertTrue(written.endswith("<!-- bench:end -->\nafter\n"))
            self.assertIn("397.1", written)
            self.assertNotIn("old", written)
            self.assertEqual(report.rewrite(written), written)


if __name__ == "__main__":
    unittest.main()
