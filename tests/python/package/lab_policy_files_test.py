#!/usr/bin/env python3
"""Policies in files of Python: each replay runs its own, and what decided can be sent to other processes."""

import copy
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest

import vmart.lab


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.drift = vmart.lab.generate("zipf-drift", seed=7, gpus=4, length_s=2, objects=200)

    def replay(self, **options):
        return vmart.lab.replay(self.drift, machine="h200x4", hbm="2GiB", **options)

    def test_files_do_not_share_what_they_import(self):
        text = ("from __future__ import annotations\nimport dataclasses\nimport vmart\nimport beside_it\nimport around_it.part\n\n\n"
                "@dataclasses.dataclass\nclass Own(vmart.Policy):\n    uses: int = 3\n"
                "    number = beside_it.NUMBER + around_it.part.NUMBER\n")  # fmt: skip
        before, path = set(sys.modules), list(sys.path)
        with tempfile.TemporaryDirectory() as folder:
            for number in range(3):
                own = pathlib.Path(folder, str(number % 2))
                (own / "around_it").mkdir(parents=True, exist_ok=True)
                (own / "own.py").write_text(text)
                for name in ("beside_it.py", "around_it/part.py"):
                    (own / name).write_text(f"NUMBER = {10**number}\n")
                self.assertEqual(self.replay(policy=own / "own.py").policy_object.number, 2 * 10**number)
        self.assertEqual(({each for each in set(sys.modules) - before if "it" in each.split("_")}, sys.path), (set(), path))

    def test_what_decided_can_be_sent_to_other_processes(self):
        text = ("import vmart\n\nclass Count:\n    def __init__(self):\n        self.uses = 0\n\n"
                "class Plain(vmart.Policy):\n    def __init__(self):\n        self.count = [Count()]\n"
                "    def on_use(self, chunk, device, bytes_read, bytes_written, snapshot, plan):\n        self.count[0].uses += 1\n\n"
                "class Heir(Plain):\n    pass\n")  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "counts.py")
            file.write_text(text)
            result = self.replay(policy=f"Heir@{file}")
            uses = result.policy_object.count[0].uses
            self.assertGreater(uses, 0)
            for copied in (copy.deepcopy(result.policy_object), pickle.loads(pickle.dumps(result)).policy_object):
                self.assertIs(type(copied), type(result.policy_object))
                self.assertEqual(copied.count[0].uses, uses)
            there = "import pickle, sys\nmade = pickle.load(sys.stdin.buffer).policy_object\nprint(type(made).__mro__[1].__name__, made.count[0].uses)"
            sent = pickle.dumps(result)
            done = subprocess.run([sys.executable, "-c", there], input=sent, capture_output=True, check=True)
            self.assertEqual(done.stdout.decode().split(), ["Plain", str(uses)])
            file.write_text(text.replace("Heir", "Other"))
            done = subprocess.run([sys.executable, "-c", there], input=sent, capture_output=True, check=False)
            self.assertIn(b"defines Count, Plain, Other, no Heir", done.stderr)


if __name__ == "__main__":
    unittest.main()
