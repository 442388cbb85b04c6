"""The files that an experiment needs, so that it can be laid down elsewhere."""

import os
import pathlib

from vmart.lab.cell_file import read_json
from vmart.lab.errors import ExperimentError, ResultError
from vmart.lab.experiments.reader import read_experiment
from vmart.lab.experiments.traces import files_of
from vmart.lab.experiments.worker import Refusal, Worker


def machine_files(path, experiment):
    """Those of its machines that are named by relative paths; a machine may have another name."""
    for machine in experiment["machines"]:
        name = machine["machine"] if isinstance(machine, dict) else machine
        if not os.path.isabs(name) and (path.parent / name).is_file():
            yield path.parent / name


def trace_files(experiment, traces, worker):
    """Those of its `traces`, as they were read, that are named by relative paths, with all that belongs to
    them: only the program knows what a format reads besides the file that is named."""
    for named, trace in zip(experiment["traces"], traces):
        if not os.path.isabs(named.get("file") or named.get("input", "")):
            yield from map(pathlib.Path, files_of(trace, worker))


def experiment_files(path, program):
    """The path of the experiment among its files, and the bytes of them all by relative path.

    They keep how they lie to each other, so that the experiment's relative paths go on to hold. A
    file that it names by an absolute path is not among them: it has to be on each machine. `program`
    is `vmart-lab`.
    """
    path = pathlib.Path(path).resolve()
    with Worker(program) as worker:
        try:
            traces = read_experiment(path, worker).traces
            experiment = read_json(path)
            found = [path, *trace_files(experiment, traces, worker)]
        except Refusal as error:
            raise ExperimentError(f"{path}: {error}") from error
    found += (pathlib.Path(os.path.normpath(each)) for each in machine_files(path, experiment))
    top = os.path.commonpath([each.parent for each in found])
    try:
        files = {os.path.relpath(each, top): each.read_bytes() for each in found}
    except OSError as error:
        raise ResultError(error.filename, error.strerror) from error
    return os.path.relpath(path, top), files
