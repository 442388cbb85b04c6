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
