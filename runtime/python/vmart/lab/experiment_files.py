"""The files that an experiment needs, so that it can be laid down elsewhere."""

import os
import pathlib

from vmart.lab.cell_file import read_json
from vmart.lab.errors import ResultError


def named_files(experiment):
    """Texts of the experiment that name a file, or a machine that may be one."""
    for machine in experiment.get("machines", []):
        yield machine["machine"] if isinstance(machine, dict) else machine
    for trace in experiment.get("traces", []):
        yield from (trace[key] for key in ("file", "input") if key in trace)


def experiment_files(path):
    """The path of the experiment among its files, and the bytes of them all by relative path.

    They keep how they lie to each other, so that the experiment's relative paths go on to hold. A
    file that it names by an absolute path is not among them: it has to be on each machine.
    """
    path = pathlib.Path(path).resolve()
    found = [path]
    try:
        for name in named_files(read_json(path)):
            there = path.parent / name
            if not os.path.isabs(name) and there.is_file():
                found.append(pathlib.Path(os.path.normpath(there)))
    except (AttributeError, KeyError, TypeError) as error:
        raise ResultError(path, f"no experiment: {error}") from error
    top = os.path.commonpath([each.parent for each in found])
    try:
        files = {os.path.relpath(each, top): each.read_bytes() for each in found}
    except OSError as error:
        raise ResultError(error.filename, error.strerror) from error
    return os.path.relpath(path, top), files
