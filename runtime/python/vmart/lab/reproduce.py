"""The command `vmart-lab reproduce`. What it runs, bench/study/reproduce.py, lies in vmart's source tree, as do the traces,
the experiments and the pages that are compared."""

import os
import pathlib
import sys

import vmart
from vmart.lab.errors import ExperimentError
from vmart.lab.experiments.worker import find_program

SCRIPT = pathlib.Path("bench", "study", "reproduce.py")


def add_arguments(reproduce):
    reproduce.add_argument("names", nargs="*", metavar="NAME", help="a table or figure; default: list them")
    reproduce.add_argument("--smoke", action="store_true", help="make all of them from what is committed, and a part of their "
                           "cells anew")
    reproduce.add_argument("--out", metavar="FOLDER", help="folder for results and what is made; default: reproduced")
    reproduce.add_argument("--from", dest="table", metavar="CSV", help="run nothing; make them of this table, such as "
                           "docs/measurements/study.csv")
    reproduce.add_argument("--jobs", type=int, metavar="N", help="cells to run in parallel; default: the number of processors")
    reproduce.add_argument("--policy", action="append", default=[], help="leaderboard: add a row for this policy; may be "
                           "repeated")
    reproduce.add_argument("--within", type=float, metavar="PERCENT", help="by which numbers of what is run again may differ; "
                           "default: 5")
    reproduce.add_argument("--source", metavar="FOLDER", help="vmart's source tree; default: the current folder, or one above "
                           "it or the program")
    reproduce.add_argument("--program", metavar="PATH", help="vmart-lab; default: the installed one")
    reproduce.set_defaults(run=run_reproduce)


def find_source(given=None):
    """The source tree. Raises ExperimentError if there is none."""
    beside = pathlib.Path(__file__).resolve()
    near = [pathlib.Path(given)] if given else [pathlib.Path.cwd(), *pathlib.Path.cwd().parents, *beside.parents]
    for folder in near:
        if (folder / SCRIPT).is_file():
            return folder.resolve()
    raise ExperimentError(f"{given or pathlib.Path.cwd()} is not in vmart's source tree, which has {SCRIPT}; unpack or clone "
                          "it, and name it with --source")


def command_of(arguments):
    """With absolute paths where the script would take them from elsewhere."""
    script = find_source(arguments.source) / SCRIPT
    command = [sys.executable, "-B", str(script), *arguments.names, "--vmart-lab", arguments.program or find_program()]
    if arguments.smoke:
        command.append("--smoke")
    for option, value in (("--out", arguments.out), ("--from", arguments.table), ("--jobs", arguments.jobs),
                          ("--within", arguments.within)):
        if value is not None:
            command += [option, str(value)]
    return command + [word for policy in arguments.policy for word in ("--policy", policy)]


def run_reproduce(arguments):
    """Becomes the script, which finds this package."""
    command = command_of(arguments)
    package = str(pathlib.Path(vmart.__file__).resolve().parents[1])
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    sys.stdout.flush()
    os.execve(command[0], command, {**os.environ, "PYTHONPATH": path})
