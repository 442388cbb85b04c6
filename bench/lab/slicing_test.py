"""Goal: slicing.py cuts accesses without changing the work, and finds policies that change their order.

    slicing_test.py VMART-LAB
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import slicing

LAB = sys.argv.pop(1)
SECOND = 10**9


def decode(passes=1000.0):
    """64 MiB at the host, of which GPU 0 reads 1000 passes in 2 s."""
    return [
        {"event": "alloc", "time_ns": 0, "object": 1, "bytes": 64 << 20, "home": "host(0)"},
        {"event": "access", "time_ns": 0, "object": 1, "bytes": 64 << 20, "passes": passes,
         "duration_ns": 2 * SECOND, "device": 0, "task": 5},
        {"event": "free", "time_ns": SECOND, "object": 1},
    ]


class Slices(unittest.TestCase):
    def test_have_the_bytes_and_the_time_of_the_access(self):
        events = list(slicing.sliced(decode(), SECOND // 100))
        tasks = [event for event in events if event["event"] == "task"]
        accesses = [event for event in events if event["event"] == "access"]
        self.assertEqual(len(tasks), 200)
        self.assertAlmostEqual(sum(access["passes"] for access in accesses), 1000)
        self.assertEqual(sum(task["compute_ns"] for task in tasks), 2 * SECOND)
        self.assertNotIn("after", tasks[0])
        self.assertEqual([task["after"] for task in tasks[1:]], [[task["task"]] for task in tasks[:-1]])
        self.assertEqual({task["request"] for task in tasks}, {1})

    def test_come_in_order_and_before_the_free(self):
        events = list(slicing.sliced(decode(), SECOND // 100))
        times = [event["time_ns"] for event in events]
        self.assertEqual(times, sorted(times))
        self.assertEqual(events[-1]["event"], "free")

    def test_cover_what_the_access_covers_in_that_time(self):
        access = {"event": "access", "time_ns": 0, "object": 1, "bytes": 1000, "offset": 24, "passes": 2.5,
                  "duration_ns": SECOND}
        cut = list(slicing.slices_of(access, SECOND // 4))  # 0.625 of a pass each.
        self.assertEqual([(each["offset"] - 24, each["bytes"]) for each in cut],
                         [(0, 625), (625, 375), (0, 250), (250, 625), (875, 125), (0, 500)])
        self.assertEqual({each["passes"] for each in cut}, {1})
        self.assertEqual([each["duration_ns"] for each in cut],
                         [each["bytes"] * SECOND // 2500 for each in cut])
        cut = list(slicing.slices_of(access, SECOND // 2))  # 1.25 passes.
        self.assertEqual([(each["offset"] - 24, each["bytes"], each["passes"]) for each in cut],
                         [(0, 1000, 1), (0, 250, 1), (250, 750, 1), (0, 500, 1)])

    def test_keep_an_access_that_is_short_enough(self):
        access = {"event": "access", "time_ns": 0, "object": 1, "bytes": 1000, "passes": 2.5}
        self.assertEqual(list(slicing.slices_of(access, SECOND)), [access])

    def test_a_router_that_looks_at_lengths_is_refused(self):
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name) / "trace.jsonl"
            # Whole, the first access is most of the load; of slices, the second is, which reads faster.
            accesses = [{"event": "access", "time_ns": came * SECOND, "object": number, "bytes": 1 << 30,
                         "passes": passes, "duration_ns": lasts * SECOND, "task": number}
                        for number, came, passes, lasts in ((1, 1, 100.0, 100), (2, 2, 10.0, 5), (3, 4, 1.0, 1))]
            allocs = [{"event": "alloc", "time_ns": 0, "object": number, "bytes": 1 << 30} for number in (1, 2, 3)]
            lines = [{"vmart_trace": 1}, *allocs, *accesses]
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            command = [sys.executable, slicing.__file__, LAB, path, "--machine", "h200x2", "--policy", "static",
                       "--slice", "1"]
            done = subprocess.run([*command, "--router", "prefix"], capture_output=True, text=True)
            self.assertIn("same work", done.stderr)
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_policies_that_change_their_order_are_found(self):
        same = {None: {"a": 1.0, "b": 1.2}, 1: {"a": 2.0, "b": 2.1}}
        self.assertEqual(slicing.reversals(same), [])
        turned = {None: {"a": 1.0, "b": 1.2}, 1: {"a": 2.1, "b": 2.0}}
        self.assertEqual(slicing.reversals(turned), [("a", "b")])
        near = {None: {"a": 1.0, "b": 1.04}, 1: {"a": 2.1, "b": 2.0}}
        self.assertEqual(slicing.reversals(near), [])

    def test_a_long_access_that_moves_takes_what_its_slices_take(self):
        took = []
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name) / "trace.jsonl"
            for slice_ns in (sys.maxsize, SECOND // 100):
                lines = [{"vmart_trace": 2}, *slicing.sliced(decode(), slice_ns)]
                path.write_text("".join(json.dumps(line) + "\n" for line in lines))
                done = subprocess.run([LAB, "replay", path, "--machine", "h200x4", "--policy", "cost_benefit",
                                       "--json"], check=True, capture_output=True, text=True)
                report = json.loads(done.stdout)
                self.assertGreater(report["moves"], 0)
                took.append(report["metrics"]["seconds"])
        self.assertAlmostEqual(took[0], took[1], delta=0.02 * took[1])


if __name__ == "__main__":
    unittest.main()
