"""Experiments in a folder of their own, run by the package with the real `vmart-lab`. Standard library only."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from vmart.lab import ExperimentError
from vmart.lab.experiments.run import Watcher, run_experiment

DRIFT = {"name": "drift", "generate": "zipf-drift", "parameters":
         {"gpus": 2, "object_bytes": 4194304, "length_s": 0.3, "objects": 28, "accesses_s": 200}}
# 8 cells that take milliseconds each: two machines, a generated trace with two seeds, two policies.
QUICK = {"experiment": "quick",
         "machines": ["test-2", {"name": "full", "machine": "test-2", "hbm_gib": 0.03125}],
         "traces": [DRIFT], "policies": ["stay_put", "cost_benefit:margin=1.25"], "static": False, "seeds": [1, 2]}
FIRST = "test-2~drift~stay_put~prefix~s1"
OWN = {"experiment": "own", "machines": ["test-2"], "policies": ["stay_put"], "static": False,
       "traces": [{"name": "own", "file": "own.jsonl"}]}
OWN_CELL = "test-2~own~stay_put~prefix~s1"
EVENTS = ('{"event":"alloc","time_ns":0,"object":1,"bytes":4096}\n'
          '{"event":"access","time_ns":1000,"object":1,"bytes":4096}\n')

MACHINES = pathlib.Path(__file__).resolve().parents[3] / "runtime/machine/machines"

# Stands for `vmart-lab`: passes all on but the questions that contain WORD, which it answers by THEN.
STAND_IN = """#!{python}
import os, signal, subprocess, sys
if sys.argv[1] != "cells":
    os.execv({program!r}, [{program!r}, *sys.argv[1:]])
real = subprocess.Popen([{program!r}, "cells"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
for line in sys.stdin.buffer:
    if {word!r} in line:
        with open({log!r}, "a") as log:
            log.write("asked\\n")
        {then}
    else:
        real.stdin.write(line)
        real.stdin.flush()
        sys.stdout.buffer.write(real.stdout.readline())
    sys.stdout.flush()
"""
DIES = "os.kill(os.getpid(), signal.SIGKILL)"
REFUSES = """print('{"error":"no luck today"}')"""


def program_argument():
    """The path of `vmart-lab`, the last argument of the test."""
    return os.path.abspath(sys.argv.pop())


def stand_in(path, program, word, then):
    """Writes a stand-in of `vmart-lab`. Returns its path, and that of a file with a line for each question."""
    log = f"{path}.log"
    path.write_text(STAND_IN.format(python=sys.executable, program=program, word=word.encode(), log=log, then=then))
    path.chmod(0o755)
    return str(path), pathlib.Path(log)


class Told(Watcher):
    """Keeps what it is told, and calls functions of the test."""

    def __init__(self):
        self.ids = []
        self.began = None
        self.stopped = False
        self.at_stage = self.at_begin = self.at_cell = lambda *_: None

    def on_stage(self, what, count):
        self.at_stage(what)

    def on_begin(self, cells, finished):
        self.began = (cells, finished)
        self.at_begin()

    def on_cell(self, identity):
        self.ids.append(identity)
        self.at_cell(len(self.ids))

    def stop(self):
        return self.stopped


class Rig(unittest.TestCase):
    """`folder` has the experiment's file and folders with results."""

    program = None  # Told by the test's file.

    def setUp(self):
        owner = tempfile.TemporaryDirectory()
        self.addCleanup(owner.cleanup)
        self.folder = pathlib.Path(owner.name)
        self.file = self.folder / "experiment.json"
        self.told = Told()

    def write(self, experiment):
        self.file.write_text(experiment if isinstance(experiment, str) else json.dumps(experiment))

    def run_into(self, name, jobs=1, only=(), program=None):
        """Runs the experiment into a folder; `told` has what happened in this run only."""
        self.told.ids = []
        return run_experiment(self.file, self.folder / name, jobs, only, program or self.program, self.told)

    def error_of(self, *arguments, **options):
        with self.assertRaises(ExperimentError) as caught:
            self.run_into(*arguments, **options)
        return str(caught.exception)

    def command(self, *words, **options):
        """`vmart-lab` itself."""
        return subprocess.run([self.program, *map(str, words)], capture_output=True, text=True, check=False, **options)

    def results(self, name):
        """The bytes of all files below a folder of results, by path; None for a folder."""
        top = self.folder / name
        return {str(path.relative_to(top)): path.read_bytes() if path.is_file() else None
                for path in top.rglob("*")}


def cells_in(results):
    return [name for name in results if name.startswith("cells/")]


def cut(path, size):
    path.write_bytes(path.read_bytes()[:size])
