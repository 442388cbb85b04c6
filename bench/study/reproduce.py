#!/usr/bin/env python3
"""Reproduces what docs/results says of the study and of the benchmark: runs what a table or figure is made of, makes it
anew, and compares its numbers with those that are committed. `vmart-lab reproduce` calls this.

    reproduce.py                          lists the names, with what each takes
    reproduce.py NAME... [--out FOLDER]   runs what they need; a run that was interrupted goes on
    reproduce.py NAME... --from CSV       runs nothing: makes them of a table such as docs/measurements/study.csv
    reproduce.py --smoke                  all of them from what is committed, and a part of the cells anew
    reproduce.py leaderboard --policy P   the leader board with a further row

What is made lies in FOLDER: NAME.md or NAME.svg (leaderboard.csv, too), and the results of each experiment. What is made of a table has to have
the same numbers. What was run again has to agree within 5 % (--within), one unit of the last digit shown, and one in
counts. Exit status: 0 if all does, 1 if not or if something failed, 69 if a figure could not be drawn for want of
matplotlib.
"""

import json
import os
import pathlib
import sys
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(1, str(ROOT / "bench"))
import benchmark
import comparing
import slicing_table
import study
import study_cells
import study_plots
import study_tables
from harness import plots
from harness.programs import parser_of
from study_cells import StudyError

LEADERBOARD, DISK, SLICING = "leaderboard", "disk", "slicing"
HEADINGS = {DISK: "## A trace nobody had looked at", SLICING: "## Does slicing matter?"}  # Their tables' in study.md.
SHOWN_MAX = 20  # Differences of a name.
# What --smoke runs: these policies with the first seed, and no trace whose replay takes long.
SMOKE_POLICIES = ("static", "auto", "counter", "cost_benefit")
SMOKE_LEAVES_OUT = ("vidur arxiv", "azure conversation")


class Target(NamedTuple):
    about: str
    experiment: str
    minutes: float | None  # On one core, as docs/guide/artifact.md says; None if nobody has measured them.
    figure: bool = False


TARGETS = {
    "policies": Target("table: each policy over all real traces", study_tables.POLICIES, 5),
    "cells": Target("table: the best policies by machine and real trace", study_tables.POLICIES, 5),
    "study_real": Target("figure: policies by machine and real trace", study_tables.POLICIES, 5, figure=True),
    "generated": Target("table: policies on generated traces", study_tables.GENERATED, 3.5),
    "study_generated": Target("figure: the same, a point a seed", study_tables.GENERATED, 3.5, figure=True),
    "whole_policies": Target("table: the default policy on whole traces", study_tables.WHOLE, None),
    "whole_cells": Target("table: the same by machine and trace", study_tables.WHOLE, None),
    "machines_policies": Target("table: policies on other machines", study_tables.MACHINES, 2.5),
    "machines_cells": Target("table: the same by machine and trace", study_tables.MACHINES, 2.5),
    DISK: Target("table: a virtual disk; its file may not be kept here", "blocks", None),
    SLICING: Target("table: does slicing matter?", SLICING, 5.5),
    LEADERBOARD: Target("the leader board of vmart-bench 2026.12", LEADERBOARD, 7.5),
}


class Reproduction:
    """One call. Owns the folder `out`, and each experiment that was run for it, so that names share them."""

    def __init__(self, arguments):
        self.arguments, self.out = arguments, arguments.out
        self.pages = study.Pages(arguments.root)
        self.board = benchmark.Pages(arguments.root)
        self.benchmark = benchmark.Benchmark(arguments.benchmark)
        self.within = 0 if arguments.table else arguments.within / 100
        self.found = {}  # Experiments, by name.

    def experiment_file(self, name):
        return self.arguments.experiments / f"{name}.json"

    def program(self):
        return study.find_program(self.arguments.vmart_lab)

    def experiment(self, name):
        """Of the table of --from, else run."""
        if name not in self.found:
            if self.arguments.table:
                study_of = study_cells.read_table(self.arguments.table)
                if name not in study_of.experiments:
                    raise StudyError(f"{self.arguments.table}: has no cells of {name}")
                self.found.update(study_of.experiments)
            else:
                folder = self.out / name
                study.run_experiment(self.program(), self.experiment_file(name), folder, self.arguments.jobs)
                self.found[name] = study_cells.condense(name, folder, "reproduced")
        return self.found[name]

    def policies_of(self, name):
        """Those that are run today; of --from, all that the table has."""
        if self.arguments.table:
            return self.experiment(name).policies
        return policies_in(json.loads(self.experiment_file(name).read_text(encoding="utf-8")))

    def write(self, name, text):
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / f"{name}.md"
        path.write_text(text + "\n", encoding="utf-8")
        return path

    def differences(self, name):
        """Makes what has this name. Returns the differences, and a line about it."""
        target = TARGETS[name]
        if name == LEADERBOARD:
            return self.leaderboard()
        if name == SLICING:
            made = slicing_table.slicing_table(self.program(), self.out / SLICING)
            return self.table(name, made, self.below(name), slicing_table.POLICIES)
        experiment = self.experiment(target.experiment)
        if target.figure:
            return self.figure(name, experiment)
        if name == DISK:
            return self.table(name, study_tables.disk(experiment), self.below(name), self.policies_of(target.experiment))
        made = study_tables.TABLES[name](study_cells.Study([experiment]))
        return self.table(name, made, self.pages.table_of(name), self.policies_of(target.experiment))

    def below(self, name):
        """A table of the page that nothing writes."""
        return comparing.table_below(self.pages.document.read_text(encoding="utf-8"), HEADINGS[name])

    def table(self, name, made, committed, policies):
        path = self.write(name, made)
        gone = sorted(comparing.retired(committed, policies))
        more = f" (without {', '.join(gone)}: no longer part of vmart)" if gone else ""
        return list(comparing.table_differences(committed, made, policies, self.within)), f"{path}{more}"

    def figure(self, name, experiment):
        """One that is drawn of the committed table has the committed numbers; of other cells, their times are compared."""
        path = self.out / f"{name}.svg"
        drawn = plots.has_matplotlib()
        if drawn:
            plots.write(path, study_plots.FIGURES[path.name], study_cells.Study([experiment]))
        kept = self.pages.kept().experiments[experiment.name]
        found = list(comparing.cell_differences(kept, experiment, self.within))
        if drawn and self.arguments.table:
            found += comparing.drawing_differences(self.pages.images / path.name, path)
        return found, str(path) if drawn else None

    def leaderboard(self):
        if self.arguments.table:
            _, rows = benchmark.read_csv(self.arguments.table)
        else:
            board = self.benchmark.run(self.program(), self.out / LEADERBOARD, self.arguments.policy, self.arguments.jobs)
            (self.out / f"{LEADERBOARD}.csv").write_text(board.csv(board.experiment.made), encoding="utf-8")
            rows = board.rows
            print(benchmark.board_table(rows))
        made = benchmark.board_table(rows)
        return self.table(LEADERBOARD, made, self.board.table_of(), [row["policy"] for row in rows])

    def smoke(self):
        """The names of what was done, with its differences and a line about it."""
        self.benchmark.require_inputs()
        yield "frozen files", [], f"of {self.benchmark.name}"
        again = Reproduction(with_table(self.arguments, self.pages.table))
        for name, target in TARGETS.items():
            if target.experiment in study.NAMES:
                yield name, *again.differences(name)
        yield LEADERBOARD, *Reproduction(with_table(self.arguments, self.board.table)).leaderboard()
        kept = self.pages.kept().experiments
        for name in study.NAMES:
            folder = self.out / "smoke" / name
            asked = study.reduced(self.experiment_file(name), self.out / "smoke" / "experiments", seeds=[1], leave_out=SMOKE_LEAVES_OUT,
                                  policies=[policy for policy in self.policies_of(name) if policy in SMOKE_POLICIES])
            study.run_experiment(self.program(), asked, folder, self.arguments.jobs)
            made = study_cells.condense(name, folder, "smoke")
            yield (f"{len(made.cells)} of {len(kept[name].cells)} cells of {name}",
                   list(comparing.cell_differences(kept[name], made, self.within, part=True)), str(folder))


def with_table(arguments, table):
    """These arguments, with what is committed in place of runs."""
    return type(arguments)(**{**vars(arguments), "table": table, "policy": []})


def policies_in(asked):
    return [each if isinstance(each, str) else each["policy"] for each in asked["policies"]]


def listed():
    lines = [f"{'NAME':<18} {'minutes':>7}  what, of docs/results"]
    lines += [f"{name:<18} {target.minutes or '-':>7}  {target.about}" for name, target in TARGETS.items()]
    return "\n".join([*lines, "", "Minutes are of one core; names of one experiment share its run. "
                      "--from docs/measurements/study.csv makes a table or figure in a second."])


def tell(name, found, about):
    """Returns the exit status."""
    for line in found[:SHOWN_MAX]:
        print(f"{name}: {line}", file=sys.stderr)
    if len(found) > SHOWN_MAX:
        print(f"{name}: and {len(found) - SHOWN_MAX} more", file=sys.stderr)
    if about is None:
        about = "is not drawn: matplotlib is not installed (pip install matplotlib)"
    print(f"{name}: {f'{len(found)} DIFFERENCES' if found else 'as committed'}: {about}", flush=True)
    return 1 if found else 0


def arguments_of(words):
    parser = parser_of(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a table or figure; none lists them")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("reproduced"), help="where results and what is made go")
    parser.add_argument("--from", dest="table", metavar="CSV", type=pathlib.Path, help="run nothing")
    parser.add_argument("--jobs", type=int, help="cells to run in parallel")
    parser.add_argument("--policy", action="append", default=[], help="of the leader board: a further policy")
    parser.add_argument("--within", type=float, default=100 * comparing.RERUN, metavar="PERCENT", help="of what is run again")
    parser.add_argument("--vmart-lab", metavar="PATH", help="the program")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="whose docs are compared")
    parser.add_argument("--experiments", type=pathlib.Path, default=ROOT / "bench" / "experiments")
    parser.add_argument("--benchmark", type=pathlib.Path, default=benchmark.MANIFEST, help="its manifest")
    arguments = parser.parse_args(words)
    unknown = [name for name in arguments.names if name not in TARGETS]
    if unknown:
        parser.error(f"{', '.join(unknown)}: no such table or figure; known are {', '.join(TARGETS)}")
    if arguments.smoke and (arguments.names or arguments.table):
        parser.error("--smoke takes no NAME and no --from")
    if arguments.table and SLICING in arguments.names:
        parser.error(f"{SLICING} is made of no table; leave out --from")
    if arguments.policy and arguments.names != [LEADERBOARD]:
        parser.error("--policy is of the leader board: leaderboard --policy P")
    return arguments


def main(words=None):
    arguments = arguments_of(words)
    if not arguments.names and not arguments.smoke:
        print(listed())
        return 0
    began, status, undrawn = time.monotonic(), 0, False
    try:
        reproduction = Reproduction(arguments)
        results = reproduction.smoke() if arguments.smoke else \
            ((name, *reproduction.differences(name)) for name in arguments.names)
        for name, found, about in results:
            status = max(status, tell(name, found, about))
            undrawn = undrawn or about is None
    except (StudyError, OSError, ValueError) as error:
        print(f"reproduce: {error}", file=sys.stderr)
        return 1
    print(f"{time.monotonic() - began:.0f} s")
    return status or (os.EX_UNAVAILABLE if undrawn and not arguments.smoke else 0)


if __name__ == "__main__":
    sys.exit(main())
