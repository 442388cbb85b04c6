"""Converts files by the real `vmart-lab convert`, and reads its traces."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SAMPLES = HERE / "samples"
TRACES = HERE.parents[2] / "bench" / "traces"
PROGRAM = sys.argv.pop()
# The program starts `python3`, and means this one.
PATH = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def vmart_lab(*words, stdin=None, cwd=None, **environment):
    return subprocess.run([PROGRAM, *map(str, words)], text=True, capture_output=True, check=False, stdin=stdin,
                          cwd=cwd, env={**os.environ, "PATH": PATH, **environment})


class Converting(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        owner = tempfile.TemporaryDirectory()
        self.addCleanup(owner.cleanup)
        self.folder = pathlib.Path(owner.name)
        self.output = self.folder / "out.jsonl"

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def convert(self, form, path, *values, seed=1, options=()):
        """The summary that the program prints as JSON. The trace is in `self.output`."""
        words = [word for value in values for word in ("--param", value)]
        done = vmart_lab("convert", form, path, self.output, "--json", "--seed", seed, *words, *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def refused(self, form, path, *values, options=()):
        """What the program says when it fails. It leaves no trace then."""
        self.output.unlink(missing_ok=True)
        words = [word for value in values for word in ("--param", value)]
        done = vmart_lab("convert", form, path, self.output, *words, *options)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual([one for one in self.folder.iterdir() if one.name.startswith("out.jsonl")], [])
        return done.stderr

    def events(self, form, path, *values, seed=1):
        """The events as lines of JSON without `"event":` and `_ns`, in order."""
        self.convert(form, path, *values, seed=seed)
        return [json.loads(line) for line in self.output.read_text().splitlines()[1:]]

    def bad(self, form, path, *values):
        """The number and the reason of each bad line."""
        return [f"{one['line']}: {one['reason']}" for one in self.convert(form, path, *values)["first_bad_lines"]]
