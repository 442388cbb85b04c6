"""The placement lab: experiments, here and on a cluster, pages of results, exact bounds, files that become traces, and
what vmart's own pages say, made anew."""

import argparse
import gc
import json
import os
import sys

from vmart.lab import reproduce
from vmart.lab.errors import ExperimentError, MissingLibrary, ResultError
from vmart.lab.experiments import command

MISSING = os.EX_UNAVAILABLE  # 69: a library that the command needs.


class Formatter(argparse.HelpFormatter):
    """Of a fixed width: looking for that of the terminal takes longer than all arguments."""

    def __init__(self, prog):
        super().__init__(prog, width=100)


class Parser(argparse.ArgumentParser):
    def __init__(self, **how):
        super().__init__(formatter_class=Formatter, **how)


def parser():
    lab = Parser(prog="vmart.lab", description=__doc__)
    lab.add_argument("--outcome", type=int, metavar="FILE", help="number of an open file that gets the error or the "
                     "bad lines, as JSON, instead of standard error")
    commands = lab.add_subparsers(dest="command", required=True)
    command.add_arguments(commands.add_parser("run", help="runs all cells of an experiment file"))
    report = commands.add_parser("report", help="writes report.html and results.parquet")
    report.add_argument("folder", help="what `vmart-lab run` was given as --out")
    report.add_argument("--pictures-max", type=int, default=48, metavar="N",
                        help="cells with pictures of their own (48)")
    report.add_argument("--picture", action="append", default=[], metavar="ID",
                        help="a cell that gets pictures in any case")
    report.set_defaults(run=run_report)
    sweep = commands.add_parser("sweep", help="runs an experiment on a Ray cluster")
    sweep.add_argument("experiment", help="what `vmart-lab run` takes")
    sweep.add_argument("--out", required=True, metavar="FOLDER", help="folder for the results")
    sweep.add_argument("--address", help="of the cluster's head; without it that of RAY_ADDRESS, or "
                       "a cluster of this machine alone")
    sweep.add_argument("--program", metavar="PATH", help="vmart-lab; also tried on the cluster's machines")
    sweep.add_argument("--tries", type=int, default=3, metavar="N", help="of each cell (3)")
    sweep.set_defaults(run=run_sweep)
    reproduce.add_arguments(commands.add_parser("reproduce", help="makes tables and figures of vmart's pages anew, and compares"))
    optimum = commands.add_parser("optimum", help="solves what `vmart-lab bounds --lp` wrote")
    optimum.add_argument("model", help="NAME.lp")
    optimum.add_argument("--seconds", type=float, default=600, metavar="N", help="about so many at most (600)")
    optimum.add_argument("--gap", type=float, default=1e-6, metavar="G",
                         help="between solution and bound, over the bound, that is enough (1e-6)")
    optimum.set_defaults(run=run_optimum)
    add_importers(commands)
    return lab


def add_importers(commands):
    """What `vmart-lab convert` starts."""
    formats = commands.add_parser("formats", help="prints the formats of files that become traces, as JSON")
    formats.set_defaults(run=run_formats)
    files = commands.add_parser("files", help="prints the files that are read for an input, as JSON")
    files.add_argument("format")
    files.add_argument("input")
    files.set_defaults(run=run_files)
    events = commands.add_parser("events", help="prints the events of a file, as a trace in JSON lines, and its "
                                 "bad lines on standard error")
    events.add_argument("format", help="a name that `formats` prints")
    events.add_argument("input", help="a file, also gzip-compressed; - for standard input")
    events.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="may be repeated")
    events.add_argument("--seed", type=int, default=1, metavar="N", help="of all random choices (1)")
    events.add_argument("--bad-lines", type=int, default=100, metavar="N", help="to skip before failing (100)")
    events.set_defaults(run=run_events)


def run_report(arguments):
    from vmart.lab.report import write_report

    write_report(arguments.folder, arguments.pictures_max, arguments.picture)
    return 0


def run_sweep(arguments):
    from vmart.lab.sweep import Sweep

    sweep = Sweep(arguments.experiment, arguments.out, arguments.program, arguments.tries)
    return sweep.run(arguments.address)


def run_optimum(arguments):
    from vmart.lab.optimum import print_optimum, solve

    print_optimum(solve(arguments.model, arguments.seconds, arguments.gap))
    return 0


def run_formats(_):
    from vmart.lab.importers import FORMATS

    print(json.dumps([one.description() for one in FORMATS.values()]))
    return 0


def run_files(arguments):
    from vmart.lab.importers import format_of

    files = format_of(arguments.format).files(arguments.input)
    for file in files:
        if plain(file) != file:
            raise ValueError(f"{file}: the name is not UTF-8")
    print(json.dumps(files))
    return 0


def run_events(arguments):
    from vmart.lab.importers import write_events

    gc.disable()  # There are no cycles among millions of objects.
    bad = write_events(arguments.format, arguments.input, sys.stdout.write, given=arguments.param,
                       seed=arguments.seed, bad_lines_max=arguments.bad_lines)
    sys.stdout.flush()
    if arguments.outcome is None:
        for line, reason in bad.lines:
            print(f"{line}: {reason}", file=sys.stderr)
    else:
        tell(arguments.outcome, bad_lines=[[line, plain(reason)] for line, reason in bad.lines])
    return 0


def tell(file, **outcome):
    """What `vmart-lab` asks for by --outcome."""
    with open(file, "w", encoding="utf-8") as told:
        json.dump(outcome, told)


def plain(text):
    """Without the surrogates that stand for bytes that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def main(words=None):
    arguments = parser().parse_args(words)
    try:
        return arguments.run(arguments)
    except MissingLibrary as error:
        print(f"vmart.lab: {error}", file=sys.stderr)
        return MISSING
    except (ExperimentError, ResultError, ValueError, OSError) as error:
        if arguments.outcome is None:
            print(f"vmart.lab: {error}", file=sys.stderr)
        else:
            tell(arguments.outcome, error=plain(str(error)))
        return 1


def prepare_standard_files():
    """Opens those that are closed, and lets names be printed that they cannot show."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # The lowest that is free.
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode, encoding="utf-8"))
    sys.stdout.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    prepare_standard_files()
    sys.exit(main())
