#!/usr/bin/env python3
"""Experiments with policies of Python, which files have: their cells have the numbers of `vmart.lab.replay`, and what is wrong
with a file is said. Argument: vmart-lab."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

import vmart
import vmart.lab

PROGRAM = sys.argv[1]
FOLLOW = '''
import vmart
import beside


class Follow(vmart.Policy):
    parameters = {"uses": 3}
    made = 0

    def __init__(self, uses=3):
        print("a policy may print")
        Follow.made += 1
        assert Follow.made == 1, "each replay has a class of its own"
        self.uses, self.seen = uses, {}

    def on_use(self, chunk, device, bytes_read, bytes_written, snapshot, plan):
        if snapshot.chunk(chunk).at == device:
            return
        self.seen[chunk] = self.seen.get(chunk, 0) + 1
        if self.seen[chunk] >= self.uses:
            plan.move(chunk, device, beside.VALUE, "it is used there")

    def on_gone(self, chunk):
        self.seen.pop(chunk, None)
'''
TWO = FOLLOW + '''

class Fails(vmart.Policy):
    def on_tick(self, snapshot, plan):
        raise ZeroDivisionError("of the policy")
'''
EXPERIMENT = {"experiment": "own", "machines": ["h200x2"], "static": False, "bounds": False, "seeds": [1],
              "traces": [{"name": "loop", "generate": "pipeline", "parameters": {"iterations": 2}}]}


class Experiments(unittest.TestCase):
    def setUp(self):
        owner = tempfile.TemporaryDirectory()
        self.addCleanup(owner.cleanup)
        self.folder = pathlib.Path(owner.name)
        self.write("follow.py", FOLLOW)
        self.write("two.py", TWO)
        self.write("beside.py", "VALUE = 1.0\n")

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def run_experiment(self, *policies):
        file = self.write("own.json", json.dumps({**EXPERIMENT, "policies": list(policies)}))
        return vmart.lab.run(file, self.folder / "results", jobs=2, program=PROGRAM)

    def metrics(self):
        cells = [json.loads(path.read_text()) for path in (self.folder / "results/cells").glob("*.json")]
        return {cell["cell"]["policy"]: cell["metrics"] for cell in cells}

    def test_cells_are_what_replay_says(self):
        policies = ["./follow.py:uses=2", "./follow.py:uses=9", "Follow@./two.py", "guarded+./follow.py", "auto"]
        self.run_experiment(*policies)
        metrics = self.metrics()
        self.assertEqual(set(metrics), set(policies))
        trace = self.folder / "results/traces/loop~s1.vtrace"
        for policy in policies:
            with contextlib.redirect_stdout(io.StringIO()):
                result = vmart.lab.replay(trace, machine="h200x2", policy=self.absolute(policy))
            self.assertEqual(metrics[policy], result.metrics, policy)
        self.assertGreater(metrics["./follow.py:uses=2"]["moves"], metrics["./follow.py:uses=9"]["moves"])

    def absolute(self, policy):
        return policy.replace("./", f"{self.folder}/")

    def test_failures_are_counted(self):
        self.run_experiment("Fails@./two.py")
        self.assertEqual(self.metrics()["Fails@./two.py"]["policy_failures"], 3)

    def test_a_policy_that_reads_input_finds_none(self):
        self.write("reads.py", "import sys, vmart\n\n\nclass Reads(vmart.Policy):\n    def on_tick(self, snapshot, plan):\n"
                               "        assert sys.stdin.read() == ''\n")  # fmt: skip
        self.run_experiment("./reads.py")
        self.assertEqual(self.metrics()["./reads.py"]["policy_failures"], 0)

    def test_a_file_that_changed_is_noticed(self):
        self.run_experiment("./follow.py")
        self.write("follow.py", FOLLOW + "# Changed.\n")
        with self.assertRaisesRegex(vmart.lab.ExperimentError, "policy_sum"):
            self.run_experiment("./follow.py")

    def test_what_is_wrong_with_a_file_is_said(self):
        self.write("empty.py", "import vmart\n")
        self.write("wrong.py", "import no_such_module\n")
        trace = vmart.lab.generate("pipeline", iterations=1)
        for policy, text in (("./none.py", "none.py: there is no such file"), ("./empty.py", "defines no subclass of vmart.Policy"),
                             ("./wrong.py", "No module named 'no_such_module'"), ("./two.py", "name one of Fails, Follow as NAME@"),
                             ("./follow.py:use=3", "uses")):  # fmt: skip
            with self.assertRaisesRegex(vmart.lab.ExperimentError, text):
                self.run_experiment(policy)
            with self.assertRaises((vmart.InvalidArgument, ModuleNotFoundError)) as raised:
                vmart.lab.replay(trace, policy=self.absolute(policy))
            self.assertIn(text.split(" as ")[0].split("Fails")[0], str(raised.exception))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
