"""A small experiment in a folder of its own, run by the real `vmart-lab`."""

import json
import pathlib
import subprocess
import tempfile
import unittest

EXPERIMENT = {
    "experiment": "small", "about": "Does the page say what the table says?",
    "machines": ["h200x2", {"name": "full", "machine": "machines/two.json", "hbm_gib": 2, "host_gib": 16}],
    "traces": [{"name": "phases", "generate": "phase-change",
                "parameters": {"gpus": 2, "phases": 3, "phase_s": 0.5, "objects": 40, "set": 8,
                               "accesses_s": 400}},
               {"name": "own", "file": "../own.vtrace"}],
    "policies": ["stay_put", {"policy": "cost_benefit", "sweep": {"margin": [1, 2]}}],
    "seeds": [1, 2], "bounds": True,
}
CELLS = 2 * 4 * (2 + 1)  # `static` is beside the policies; a trace that is a file has cells of one seed.


def write_experiment(top, program, machine):
    """The experiment lies in `top`/asked, a trace of its beside that folder. Returns its path."""
    folder = top / "asked"
    (folder / "machines").mkdir(parents=True)
    (folder / "machines" / "two.json").write_bytes(machine.read_bytes())
    subprocess.run([program, "generate", "zipf-drift", str(top / "own.vtrace"), "--seed", "3", "--param",
                    "gpus=2", "--param", "length_s=1", "--param", "objects=20"],
                   check=True, capture_output=True)
    path = folder / "experiment.json"
    path.write_text(json.dumps(EXPERIMENT), encoding="utf-8")
    return path


def run(program, experiment, folder, *options):
    return subprocess.run([program, "run", str(experiment), "--out", str(folder), "--no-report", *options],
                          capture_output=True, text=True, check=False)


class SmallExperiment(unittest.TestCase):
    """Has it run once, into `folder`; `top` is a folder for whatever else a test leaves."""

    program = machine = None  # Paths of `vmart-lab` and of a machine file, told by the test's file.

    @classmethod
    def setUpClass(cls):
        owner = tempfile.TemporaryDirectory()
        cls.addClassCleanup(owner.cleanup)
        cls.top = pathlib.Path(owner.name)
        cls.experiment = write_experiment(cls.top, cls.program, cls.machine)
        cls.folder = cls.top / "results"
        done = run(cls.program, cls.experiment, cls.folder)
        assert done.returncode == 0, done.stderr
