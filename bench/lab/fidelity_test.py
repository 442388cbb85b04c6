"""Goal: fidelity.py finds the recordings that belong together, and tells errors from differences between runs.

    fidelity_test.py
"""

import contextlib
import io
import json
import pathlib
import struct
import tempfile
import types
import unittest
import unittest.mock

import fidelity


def record(folder, number, first):
    """The beginning of a file of a recording, as docs/reference/recordings.md has it."""
    path = pathlib.Path(folder) / f"vmart-7-{number}.rec"
    path.write_bytes(b"VMARTREC" + struct.pack("<IIQIIII", 1, 0, 0, 7, number, first, 0))
    return path


class Recordings(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def test_the_last_runtime_counts_and_begins_with_its_first_file(self):
        for number, first in ((1, 1), (9, 9), (10, 10), (11, 10)):
            record(self.path, number, first)
        self.assertEqual(fidelity.last_recording(self.path).name, "vmart-7-10.rec")

    def test_pauses_are_those_of_the_runtime_that_is_predicted(self):
        for number in (1, 2):
            record(self.path, number, number)
        self.assertEqual(fidelity.pauses_of(self.path), ["--program", str(self.path / "vmart-7-2.rec")])

    def test_there_may_be_none(self):
        self.assertEqual(fidelity.pauses_of(self.path), [])


def run_of(recorded, predicted):
    return {"figures": {key: {"recorded": recorded, "predicted": predicted} for key in fidelity.SHOWN}}


class Rows(unittest.TestCase):
    def rows(self, *runs):
        rows = fidelity.rows_of({"p": [run_of(*run) for run in runs]})
        return {row[1]: row[2:] for row in rows}

    def test_medians_are_compared_and_the_spread_is_of_what_was_recorded(self):
        row = self.rows((10, 10.2), (11, 10.8), (8, 10.4))["total_s"]
        self.assertEqual(row, ["10", "30.0 %", "10.4", "+4.0 %", "yes"])

    def test_of_one_run_there_is_no_spread(self):
        row = self.rows((10, 11))["total_s"]
        self.assertEqual(row, ["10", "-", "11", "+10.0 %", "no"])

    def test_nothing_foretold_as_nothing_is_right(self):
        self.assertEqual(self.rows((0, 0))["stall_s"][2:], ["0", "-", "yes"])
        self.assertEqual(self.rows((0, 1))["stall_s"][2:], ["1", "-", "no"])


class OfOneGpu(unittest.TestCase):
    def test_moves_to_and_from_the_host_are_those_of_the_gpu_alone(self):
        keys = ("move_fixed_ns", "move_s_per_byte", "stall_fixed_ns", "stall_s_per_byte")
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            both = {key: [[0, 1, 2], [3, 0, 4], [5, 6, 0]] for key in keys} | {"date": "now"}
            fidelity.write_json(fidelity.calibration_in(folder, "both"), both)
            fidelity.make_first(folder)
            self.assertFalse(fidelity.calibration_in(folder, "first").exists())
            fidelity.write_json(fidelity.calibration_in(folder, "one"),
                                {key: [[0, 20], [50, 0]] for key in keys})
            fidelity.make_first(folder)
            made = json.loads(fidelity.calibration_in(folder, "first").read_text())
        self.assertEqual(made, {key: [[0, 1, 20], [3, 0, 4], [50, 6, 0]] for key in keys}
                         | {"date": "now"})


class Repeats(unittest.TestCase):
    def test_come_by_turns_as_far_as_time_allows(self):
        """A run of `slow` takes 40 of 100 s, one of `quick` 10."""
        clock = [0.0]
        took = {"slow": 40, "quick": 10, "calibrate": 0}
        done = []
        with tempfile.TemporaryDirectory() as folder, \
                unittest.mock.patch.object(fidelity.time, "monotonic", lambda: clock[0]), \
                unittest.mock.patch.object(fidelity, "run_text") as run_text, \
                contextlib.redirect_stdout(io.StringIO()):

            def run(command, environment, limit_s):
                name = command[0] if command[0] in took else "calibrate"
                done.append(name)
                clock[0] += took[name]
                return "{}", "", 0

            run_text.side_effect = run
            measuring = fidelity.Measuring(types.SimpleNamespace(
                out=folder, budget=100, driver="sim:h200x2", policy="p", build=".", repeat=3))
            measuring.run({name: fidelity.Program([name]) for name in ("slow", "quick")})
        self.assertEqual(done, ["calibrate", "slow", "quick", "slow"])


if __name__ == "__main__":
    unittest.main()
