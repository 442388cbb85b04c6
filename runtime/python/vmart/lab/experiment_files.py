"""The files that an experiment needs, so that it can be laid down elsewhere."""

import os
import pathlib
import subprocess

from vmart.lab.cell_file import read_json
from vmart.lab.errors import ResultError


def listed(program, experiment, option):
    """The lines that `vmart-lab run EXPERIMENT OPTION` prints. It refuses what is no experiment."""
    done = subprocess.run([program, "run", str(experiment), option], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise ResultError(experiment, done.stderr.strip() or f"exit {done.returncode}")
    return done.stdout.splitlines()


def machine_files(path, experiment):
    """Those of its machines that are named by relative paths; a machine may have another name."""
    for machine in experiment.get("machines", []):
        name = machine["machine"] if isinstance(machine, dict) else machine
        if not os.path.isabs(name) and (path.parent / name).is_file():
            yield path.parent / name


def trace_files(path, experiment, program):
    """Those of its traces that are named by relative paths, with all that belongs to them: only the
    program knows what a format reads besides the file that is named."""
    named = {trace["name"]: trace.get("file") or trace.get("input")
             for trace in experiment.get("traces", [])}
    for line in listed(program, path, "--list-files"):
        trace, file = line.split("\t", 1)
        if not os.path.isabs(named[trace]):
            yield pathlib.Path(file)


def experiment_files(path, program):
    """The path of the experiment among its files, and the bytes of them all by relative path.

    They keep how they lie to each other, so that the experiment's relative paths go on to hold. A
    file that it names by an absolute path is not among them: it has to be on each machine. `program`
    is `vmart-lab`.
    """
    path = pathlib.Path(path).resolve()
    found = [path]
    experiment = read_json(path)
    try:
        found += (pathlib.Path(os.path.normpath(each)) for each in machine_files(path, experiment))
        found += trace_files(path, experiment, program)
    except (AttributeError, KeyError, TypeError) as error:
        raise ResultError(path, f"no experiment: {error}") from error
    top = os.path.commonpath([each.parent for each in found])
    try:
        files = {os.path.relpath(each, top): each.read_bytes() for each in found}
    except OSError as error:
        raise ResultError(error.filename, error.strerror) from error
    return os.path.relpath(path, top), files
