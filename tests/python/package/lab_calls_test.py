#!/usr/bin/env python3
"""Each call of the lab's extension once, on small traces: what valgrind_test.py watches, and what leaks as it runs again."""

import gc
import json
import pathlib
import tempfile
import unittest

import vmart
import vmart.lab
from vmart import _lab
from vmart.lab.policy_files import kinds_in

FILE = """import vmart
class Follow(vmart.Policy):
    parameters = {"uses": 1}
    def __init__(self, uses=1): pass
"""


class Follow(vmart.Policy):
    parameters = {"uses": 1}
    there = 0

    def __init__(self, uses=1):
        Follow.there += 1

    def __del__(self):
        Follow.there -= 1

    def on_use(self, chunk, device, bytes_read, bytes_written, snapshot, plan):
        if snapshot.chunk(chunk).at != device:
            plan.move(chunk, device, 1.0, "it is used there")


class Fails(Follow):
    def on_tick(self, snapshot, plan):
        raise ValueError("of the policy")


class Calls(unittest.TestCase):
    def test_replays_keep_no_policy(self):
        trace = vmart.lab.generate("zipf-drift", gpus=2, length_s=0.3, objects=28, accesses_s=500, object_bytes="4MiB")
        for options in ({"policy": Follow}, {"policy": "guarded+Follow:uses=2", "policies": [Follow]}, {"policy": "auto"}):
            self.assertGreater(vmart.lab.replay(trace, machine="test-2", hbm_share=0.5, **options).seconds, 0)
        for policy in (Fails, "Fails:uses=none", "none"):
            with self.assertRaises(ValueError):
                vmart.lab.replay(trace, machine="test-2", policy=policy, policies=[Fails] if policy != Fails else [])
        gc.collect()
        self.assertEqual(Follow.there, 0)

    def test_a_writer_that_is_left(self):
        with self.assertRaises(vmart.InvalidArgument), vmart.lab.TraceWriter() as writer:
            writer.alloc(0, 1, 4096)
            writer.access(0, 1, 8192)
        self.assertGreater(len(vmart.lab.generators()), 0)

    def test_a_worker_loads_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "follow.py").write_text(FILE)
            worker = _lab.Worker(kinds_in)
            question = json.dumps({"do": "policy", "policy": "./follow.py:uses=3", "folder": folder})
            self.assertEqual(json.loads(worker.answer(question)), {"library": f"{folder}/follow.py"})
            self.assertIn("error", json.loads(worker.answer(question.replace("follow", "none"))))


if __name__ == "__main__":
    unittest.main()
