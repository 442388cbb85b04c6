"""What a sweep does on a machine of the cluster: one cell, in a folder of that machine. Standard library
only; the machines need `vmart-lab` and no Python of vmart's, which Ray brings."""

import os
import pathlib
import shutil
import tempfile

from vmart.lab.errors import ExperimentError
from vmart.lab.experiments.run import run_experiment


class CellFailed(Exception):
    """A cell was not finished; says why."""


def node_folder(sweep, node):
    """Where the cells of one sweep are run on one machine: tasks there share traces and bounds."""
    return pathlib.Path(tempfile.gettempdir()) / f"vmart-sweep-{sweep}-{node}"


def unpack(files, folder):
    """Lays `files`, bytes by relative path, into `folder`, whole or not at all."""
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    own = pathlib.Path(tempfile.mkdtemp(dir=folder.parent))
    for name, data in files().items():
        path = own / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    try:
        os.rename(own, folder)
    except OSError:
        shutil.rmtree(own)  # Another task of this machine was faster.
        if not folder.exists():
            raise


def program_here(program):
    """The program at the driver's path, or else the one in this machine's PATH."""
    found = program if os.access(program, os.X_OK) else shutil.which("vmart-lab")
    if not found:
        raise CellFailed(f"there is neither {program} nor a vmart-lab in PATH")
    return found


def run_cell(folder, files, experiment, program, identity):
    """Runs one cell in `folder` and returns the bytes of its file.

    `files` is a function that gives the experiment's files by relative path, `experiment` is the path
    of one of them. Raises CellFailed.
    """
    unpack(files, folder / "input")
    results = folder / "results"
    try:
        outcome = run_experiment(folder / "input" / experiment, results, jobs=1, only=[identity],
                                 program=program_here(program))
    except ExperimentError as error:
        raise CellFailed(str(error)) from error
    if reasons := [*outcome.failed_bounds.values(), *outcome.failed.values()]:
        raise CellFailed("; ".join(reasons))
    return (results / "cells" / f"{identity}.json").read_bytes()


def clear(folder):
    """Leaves nothing of the folder. Returns the bounds that were found there, bytes by name."""
    bounds = {path.name: path.read_bytes() for path in (folder / "results" / "bounds").glob("*.json")}
    shutil.rmtree(folder, ignore_errors=True)
    return bounds
