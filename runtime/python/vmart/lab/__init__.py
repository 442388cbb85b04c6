"""The placement lab. `replay` replays a trace with a policy in this process, `compare` several; `generate`, `import_` and
`TraceWriter` make traces. `run` runs an experiment, `load` reads a folder of results into data frames. `python3 -m vmart.lab`
also writes the page of results, and runs an experiment on a cluster. docs/guide/replay.md, docs/guide/experiments.md and
docs/guide/reading_results.md say more."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from vmart.lab.errors import ExperimentError, MissingLibrary, ResultError

if TYPE_CHECKING:
    from vmart.lab.replays import Comparison, ReplayResult, compare, replay
    from vmart.lab.traces import Trace, TraceWriter, generate, generators, import_

__all__ = ["Comparison", "ExperimentError", "MissingLibrary", "ReplayResult", "ResultError", "Trace", "TraceWriter", "compare",
           "generate", "generators", "import_", "load", "replay", "run"]

# Loaded at first use: experiments and pages need none of it.
_PARTS = {"replays": ("Comparison", "ReplayResult", "compare", "replay"),
          "traces": ("Trace", "TraceWriter", "generate", "generators", "import_")}


def __getattr__(name: str) -> Any:
    for part, names in _PARTS.items():
        if name in names:
            return getattr(importlib.import_module(f"vmart.lab.{part}"), name)
    raise AttributeError(f"module 'vmart.lab' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, "__doc__", "__file__", "__name__"])


def run(experiment, folder, jobs=None, only=(), program=None):
    """Runs the cells of the experiment file `experiment` that are not finished yet, `jobs` at a time (the
    number of processors), and leaves the results in `folder`.

    `only` are ids of cells; the tables are written by a run of all. `program` is `vmart-lab`, by default
    the installed one. Returns a `vmart.lab.experiments.run.Outcome`: how many cells are finished, and why
    others failed. Raises ExperimentError for what is wrong in the file or the folder.
    """
    from vmart.lab.experiments.run import run_experiment

    return run_experiment(experiment, folder, jobs, only, program)


def load(folder):
    """Reads the result folder `folder` into a `vmart.lab.results.Results`.

    Raises ResultError, which names the file, where something there is not what `vmart-lab run`
    writes, and MissingLibrary without pandas.
    """
    from vmart.lab.errors import library

    library("pandas")
    from vmart.lab.results import read_folder

    return read_folder(folder)
