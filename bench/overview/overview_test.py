#!/usr/bin/env python3
"""Goal: `bench/run.py --summary` goes on whatever a step does, says what happened to each, and keeps what was measured.
Method: made-up steps, which run scripts that write what benchmarks write; and files as the scripts of bench/ write them.
"""

import argparse
import contextlib
import ctypes
import io
import json
import pathlib
import random
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(BENCH), str(BENCH / "unmodified")]
import checkpoints
import run
from harness.samples import Measurements
from overview import readings
from overview.measuring import Overview
from overview.steps import STEPS, VMART, Step

WRITES = """
import json, sys
out = next(one for one in sys.argv if one.startswith("--benchmark_out=")).partition("=")[2]
entry = {"run_type": "iteration", "time_unit": "ms", "park_us": 5.0}
entries = [{**entry, "name": f"x/1GiB/iterations:1/repeats:3", "real_time": time} for time in (1.0, 2.0, 4.0)]
json.dump({"benchmarks": entries}, open(out, "w"))
"""
FAILS = WRITES + "sys.exit('the GPU has fallen off')\n"
HANGS = WRITES + "sys.stdin.close()\nimport signal\nsignal.pause()\n"
SKIPS = "import sys\nprint('SKIPPED: no such driver', file=sys.stderr)\nsys.exit(77)\n"
SILENT = ""


class Steps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def step(self, way, text, row="moves", limit_s=30, **more):
        path = self.folder / f"{row}_{way.replace(' ', '_')}.py"
        path.write_text(text, encoding="utf-8")
        return Step(row, way, path.name, limit_s, **more)

    def measure(self, *steps, gpus=2, budget=60):
        """The document that is written."""
        runner = run.Runner(argparse.Namespace(build=self.folder / "build", step_limit=1, seconds=1, budget=budget), {"PATH": "/usr/bin:/bin"})
        runner.scripts = self.folder
        out = self.folder / "out.json"
        overview = Overview(runner, run.benchmark_flags, {"gpu_count": gpus, "gpus": ["A"] * gpus, "commit": "abc"}, out)
        self.said = io.StringIO()
        with contextlib.redirect_stdout(self.said):
            overview.run(steps, random.Random(1))
            overview.print_tables()
        return json.loads(out.read_text(encoding="utf-8"))

    @staticmethod
    def states(document):
        return {f"{one['row']}/{one['way']}": one["state"] for one in document["steps"]}

    def test_a_step_that_fails_hangs_or_is_skipped_does_not_end_the_others(self):
        document = self.measure(
            self.step("fails", FAILS, "first"), self.step("hangs", HANGS, "second", limit_s=1), self.step("skips", SKIPS, "third"),
            self.step("silent", SILENT, "fourth"), self.step("absent", SILENT, "fifth", module="no_such_module", install="pip install it"),
            self.step("of two", WRITES, "sixth", gpus=2), self.step(VMART, WRITES, "last"), gpus=1)
        states = self.states(document)
        self.assertEqual(states["first/fails"], "FAILED: status 1: the GPU has fallen off")
        self.assertEqual(states["second/hangs"], "FAILED: HANG: not over after 1 s")
        self.assertEqual(states["third/skips"], "SKIPPED: no such driver")
        self.assertEqual(states["fourth/silent"], "FAILED: it gave no figures")
        self.assertEqual(states["fifth/absent"], "SKIPPED: Python has no no_such_module; type: pip install it")
        self.assertEqual(states["sixth/of two"], "SKIPPED: needs 2 GPUs")
        self.assertEqual(states["last/vmart"], "done")
        self.assertEqual({one["step"] for one in document["failed"]}, {"first/fails", "second/hangs", "fourth/silent"})
        for line in ("SKIPPED: needs 2 GPUs", "FAILED: HANG", "x/1GiB"):
            self.assertIn(line, self.said.getvalue())

    def test_samples_have_their_spread_and_are_read_as_all_others(self):
        document = self.measure(self.step(VMART, WRITES))
        self.assertEqual(document["results"][0]["median_us"], 2000)
        self.assertEqual(document["results"][0]["quartiles_us"], [1500, 3000])
        self.assertEqual(document["steps"][0]["samples"], ["x/1GiB"])
        self.assertEqual(Measurements(document).get("x/1GiB").counter("park_us"), 5)

    def test_without_time_left_steps_are_left_out_and_that_is_told(self):
        document = self.measure(self.step(VMART, WRITES), budget=0)
        self.assertEqual(self.states(document), {"moves/vmart": "LEFT OUT: no time left"})
        self.assertEqual(document["left_out"], ["moves/vmart"])

    def test_what_a_script_wrote_counts_and_what_cannot_be_read_is_told(self):
        def reads(path):
            return [readings.entry("y", [float(path.read_text())])]

        write = "import sys\nopen(sys.argv[2], 'w').write(sys.argv[1])\n"
        good, bad = (self.step(way, write, arguments=(text, "{out}"), reads=reads) for way, text in (("good", "0.5"), ("bad", "?")))
        document = self.measure(good, bad)
        self.assertEqual(document["results"][0]["samples_us"], [500000])
        self.assertEqual(self.states(document), {
            "moves/good": "done", "moves/bad": "FAILED: what it wrote: ValueError: could not convert string to float: '?'"})
        self.assertEqual(len(document["failed"]), 1)

    def test_the_error_of_a_case_is_told_rather_than_the_status(self):
        error = WRITES.replace("json.dump", "entries[0].update(error_occurred=True, error_message='out of memory')\njson.dump")
        document = self.measure(self.step(VMART, error + "sys.exit(1)\n"))
        self.assertEqual(self.states(document), {"moves/vmart": "FAILED: x/1GiB: out of memory"} )
        self.assertEqual(document["steps"][0]["samples"], ["x/1GiB"])
        self.assertEqual(len(document["failed"]), 1)


class Table(unittest.TestCase):
    def test_all_limits_fit_into_a_quarter_of_an_hour(self):
        self.assertLessEqual(sum(step.limit_s for step in STEPS), 870)

    def test_each_row_has_vmart_and_a_rival_and_each_name_once(self):
        names = [step.name() for step in STEPS]
        self.assertEqual(len(names), len(set(names)))
        alone = {step.row for step in STEPS} - {step.row for step in STEPS if step.way != VMART}
        self.assertEqual(alone, {"standstill", "training", "beyond_hbm"})  # Their scripts run the rivals, too.
        self.assertEqual({step.row for step in STEPS}, {step.row for step in STEPS if step.way == VMART})

    def test_scripts_exist(self):
        for step in STEPS:
            if step.program.endswith(".py"):
                self.assertTrue((BENCH / step.program).exists(), step.program)


class Readings(unittest.TestCase):
    def read(self, reads, document):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "out.json")
            path.write_text(json.dumps(document), encoding="utf-8")
            return {entry["name"]: entry for entry in reads(path)}

    def test_the_first_pause_of_a_process_does_not_count(self):
        repeats = [{"pause": 9, "resume": 9}, {"pause": 0.5, "resume": 0.25}]
        found = self.read(readings.of_pauses, {"real backup": [repeats], "vmart dropped": [repeats], "real dropped": [[]]})
        self.assertEqual(set(found), {"pause/torch_memory_saver/backup", "pause/vmart/dropped"})
        self.assertEqual(found["pause/vmart/dropped"]["samples_us"], [750000])
        self.assertEqual(found["pause/vmart/dropped"]["counters"]["resume_us"], [250000])

    def capacity(self, met):
        return {"samples": {"capacity": {"limit_bytes": 3, "bare": {"weights_bytes": 4}}, "standstill": {"vmart_s": [1, 2], "restart_s": 5}},
                "rows": [{"name": "capacity: host, auto, 8x128", "value": 4, "met": met}, {"name": "standstill: vmart", "value": 1, "met": None}]}

    def test_rows_of_capacity_and_times_of_a_standstill_become_entries(self):
        found = self.read(readings.of_overhead, self.capacity(True))
        self.assertEqual(found["capacity/host_auto/8x128"]["counters"], {"tokens_per_s": [4], "limit_bytes": [3], "weights_bytes": [4]})
        self.assertEqual(found["standstill/vmart"]["samples_us"], [1e6, 2e6])
        self.assertEqual(found["standstill/restart"]["samples_us"], [5e6])

    def test_a_rate_with_a_wrong_output_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "differs"):
            self.read(readings.of_overhead, self.capacity(False))


class CustomStorage(unittest.TestCase):
    """The driver of 13.4 is a stand-in."""

    class Driver:
        def __init__(self):
            self.calls = []
            self.gpus = (checkpoints.StoredGpu * 2)(checkpoints.StoredGpu(0x1000, 64, 7), checkpoints.StoredGpu(0x2000, 32, 8))
            self.info = checkpoints.StorageInfo(99, self.gpus, 2)

        def give(self, arguments):
            if arguments.storage:
                ctypes.c_void_p.from_address(arguments.storage).value = ctypes.addressof(self.info)

        def cuCheckpointProcessCheckpoint(self, _, arguments):
            self.give(arguments._obj)
            return 0

        def cuCheckpointProcessRestore(self, _, arguments):
            self.give(arguments._obj)
            return 0

        def cuMemHostAlloc(self, memory, size, _):
            self.calls.append(("allocate", size.value))
            memory._obj.value = 0x9000 + size.value
            return 0

        def cuMemcpyDtoHAsync_v2(self, target, source, size, stream):
            self.calls.append(("save", source.value, target.value, size.value, stream.value))
            return 0

        def cuMemcpyHtoDAsync_v2(self, target, source, size, stream):
            self.calls.append(("load", target.value, source.value, size.value, stream.value))
            return 0

        def cuCheckpointOperationComplete(self, operation):
            self.calls.append(("complete", operation.value))
            return 0

        def cuCheckpointProcessLock(self, *_):
            return 0

        def cuCheckpointProcessUnlock(self, *_):
            return 0

    def test_memory_of_each_gpu_is_copied_before_the_operation_is_completed(self):
        moving = checkpoints.Checkpoints.__new__(checkpoints.Checkpoints)
        moving.driver = self.Driver()
        storage = checkpoints.PinnedStorage(moving)
        moving.sleep(1, storage)
        moving.wake(1, storage)
        moving.sleep(1, storage)
        copies = [("save", 0x1000, 0x9040, 64, 7), ("save", 0x2000, 0x9020, 32, 8)]
        back = [("load", *copy[1:]) for copy in copies]
        self.assertEqual(moving.driver.calls, [("allocate", 64), copies[0], ("allocate", 32), copies[1], ("complete", 99),
                                               *back, ("complete", 99), *copies, ("complete", 99)])

    def test_arguments_have_the_size_that_the_driver_reads(self):
        for kind in (checkpoints.LockArguments, checkpoints.CheckpointArguments, checkpoints.RestoreArguments):
            self.assertEqual(ctypes.sizeof(kind), 64)
        self.assertEqual(checkpoints.RestoreArguments.storage.offset, 16)

    def test_a_driver_without_it_is_told(self):
        moving = checkpoints.Checkpoints.__new__(checkpoints.Checkpoints)
        moving.driver = object()
        with self.assertRaises(checkpoints.Unavailable):
            checkpoints.PinnedStorage(moving)


if __name__ == "__main__":
    unittest.main()
