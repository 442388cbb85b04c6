#!/usr/bin/env python3
"""vmart-bench: traces, machines, seeds and policies that are frozen under a name, so that scores of different authors can
be compared. A manifest beside this file says all of it; what it names is known by checksum.

    bench/study/benchmark.py --out FOLDER   runs it, and writes docs/measurements/vmart_bench_2026_12.csv and the table of
                                            docs/results/benchmark.md; a run that was interrupted goes on
    bench/study/benchmark.py --check        whether the table is that of the file

`vmart-lab reproduce leaderboard` runs the same, and compares. docs/results/benchmark.md says what the scores mean, and what
held out means for files that everybody can read. Standard library only."""

import csv
import hashlib
import io
import json
import pathlib
import re
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(1, str(ROOT / "bench"))
import study
import study_cells
from harness.samples import table
from study_cells import BASE, DIFFERENT, StudyError, geometric_mean
from study_tables import times

MANIFEST = pathlib.Path(__file__).with_name("vmart_bench_2026_12.json")
MACHINES = ROOT / "runtime" / "machine" / "machines"
NEAR = 1.10   # Over the best reference policy: so near a policy counts as one of the best.
TIGHT = 1.10  # Over the bound: a bound that some reference policy comes so near to was shown to be tight.
SETS = ("open", "held_out")
FIGURES = ("time", "worst", "worse", "live", "near", "over_bound", "cells", "lost")
COLUMNS = ("policy", *(f"{which}_{figure}" for which in SETS for figure in FIGURES))


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def from_anywhere(policy):
    """A policy whose shared objects are named by absolute paths, such as guarded+./mine.so:uses=3."""
    return re.sub(r"(^|[+@])(\.{1,2}/[^:]+)", lambda found: found[1] + str(pathlib.Path(found[2]).resolve()), policy)


def held_out(salt, families):
    """Of each family, the half of its traces (rounded down) that come first by the SHA-256 of `salt/name`."""
    def place(name):
        return sha256(f"{salt}/{name}".encode())
    return {name for names in families.values() for name in sorted(names, key=place)[:len(names) // 2]}


def machine_sum(path):
    """Of what a machine file says, but for the remarks about where its numbers are from."""
    said = json.loads(path.read_text(encoding="utf-8"))
    return sha256(json.dumps({key: value for key, value in said.items() if key not in ("source", "sources")},
                             sort_keys=True).encode())


def events_sum(path):
    """Of a trace's events in binary form. What stands before them names all parameters of its converter, of which there
    may be more one day."""
    data = path.read_bytes()
    header = struct.unpack_from("<I", data, 12)[0] if data[:8] == b"VMATRACE" and len(data) >= 20 else len(data)
    return sha256(data[20 + header:])


class Benchmark:
    """What a manifest says. Constant."""

    def __init__(self, path=MANIFEST):
        said = json.loads(path.read_text(encoding="utf-8"))
        self.path, self.name = path, said["benchmark"]
        self.experiment, self.sums = said["experiment"], said["sums"]
        self.families = said["families"]
        self.held_out = held_out(said["salt"], self.families)
        self.policies = self.experiment["policies"]
        named = [trace["name"] for trace in self.experiment["traces"]]
        if sorted(named) != sorted(name for names in self.families.values() for name in names):
            raise StudyError(f"{path}: the families are not of the traces of the experiment")

    def which(self, trace):
        return SETS[trace in self.held_out]

    def _differences(self, kind, sum_of):
        for name, frozen in self.sums[kind].items():
            try:
                found = sum_of(name)
            except OSError as error:
                found = f"missing ({error.strerror})"
            if found != frozen:
                yield f"{name}: the SHA-256 is {found}, not {frozen}"

    def require_inputs(self):
        """Raises StudyError where a file or a machine is not the one that was frozen."""
        wrong = [*self._differences("inputs", lambda name: sha256((self.path.parent / name).read_bytes())),
                 *self._differences("machines", lambda name: machine_sum(MACHINES / f"{name}.json"))]
        self._refuse(wrong)

    def require_traces(self, folder):
        """The same of the traces that a run has made in its folder of results."""
        self._refuse(list(self._differences("traces", lambda name: events_sum(folder / "traces" / f"{name}.vtrace"))))

    def _refuse(self, wrong):
        if wrong:
            raise StudyError(f"this is not {self.name}: " + "; ".join(wrong))

    def experiment_of(self, policies=()):
        """The experiment as `vmart-lab run` takes it from any folder, with further policies."""
        asked = json.loads(json.dumps(self.experiment))
        for trace in asked["traces"]:
            if "input" in trace:
                trace["input"] = str((self.path.parent / trace["input"]).resolve())
        asked["policies"] += [policy for policy in map(from_anywhere, policies) if policy not in asked["policies"]]
        return asked

    def run(self, program, folder, policies=(), jobs=None, made=None):
        """Runs what is missing in `folder`, and returns the board. `made` says of what commit it is."""
        self.require_inputs()
        folder.mkdir(parents=True, exist_ok=True)
        asked = folder.with_name(f"{folder.name}.json")
        asked.write_text(json.dumps(self.experiment_of(policies), indent=1), encoding="utf-8")
        study.run_experiment(program, asked, folder, jobs)
        self.require_traces(folder)
        return Board(self, study_cells.condense(self.name, folder, study.made_at(made)))


class Board:
    """The scores of all policies of an `Experiment`. What is live, near and tight depends on the reference policies alone,
    so that a further row changes no other one."""

    def __init__(self, benchmark, experiment):
        self.benchmark, self.experiment = benchmark, experiment
        self.reference = {}  # The cells of reference policies, by place.
        for cell in experiment.cells:
            if cell.policy in benchmark.policies and not cell.lost:
                self.reference.setdefault(cell.place, []).append(cell)
        missing = [policy for policy in benchmark.policies if policy not in experiment.policies]
        if missing:
            raise StudyError(f"there are no cells of {', '.join(missing)}, which the scores of all need")
        self.rows = sorted((self._row(policy) for policy in experiment.policies),
                           key=lambda row: (row["held_out_time"] is None, row["held_out_time"]))

    def _is_live(self, place):
        ratios = [ratio for cell in self.reference[place] if (ratio := self.experiment.ratio(cell)) is not None]
        return any(max(ratio, 1 / ratio) > DIFFERENT for ratio in ratios)

    def _best(self, place):
        return min(cell.time_s for cell in self.reference[place])

    def _is_tight(self, place):
        known = [cell.over_bound for cell in self.reference[place] if cell.over_bound is not None]
        return bool(known) and min(known) <= TIGHT

    def _row(self, policy):
        row = {"policy": policy}
        for which in SETS:
            cells = [cell for cell in self.experiment.cells
                     if cell.policy == policy and self.benchmark.which(cell.trace) == which]
            for figure, value in zip(FIGURES, self._scores(cells)):
                row[f"{which}_{figure}"] = value
        return row

    def _scores(self, cells):
        compared = [(cell, ratio) for cell in cells if (ratio := self.experiment.ratio(cell)) is not None]
        live = [(cell, ratio) for cell, ratio in compared if self._is_live(cell.place)]
        scenarios = {}  # Each machine and trace counts once, however many seeds it has.
        for cell, ratio in compared:
            scenarios.setdefault((cell.machine, cell.trace), []).append(ratio)
        near = [cell for cell, _ in live if cell.time_s <= NEAR * self._best(cell.place)]
        tight = [cell.over_bound for cell, _ in compared if cell.over_bound is not None and self._is_tight(cell.place)]
        return (geometric_mean(map(geometric_mean, scenarios.values())),
                max((ratio for _, ratio in compared), default=None),
                sum(ratio > DIFFERENT for _, ratio in live), len(live),
                len(near) / len(live) if live else None,
                geometric_mean(tight),
                len(compared), sum(bool(cell.lost) for cell in cells))

    def csv(self, made):
        text = io.StringIO()
        text.write(f"# {self.benchmark.name}: {made}\n")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in self.rows:
            writer.writerow("" if (value := row[name]) is None else f"{value:.6g}" if isinstance(value, float) else value
                            for name in COLUMNS)
        return text.getvalue()


def read_csv(path):
    """How the board was made, and its rows as `Board.rows` has them."""
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            made = next(lines, "").removeprefix("# ").strip()
            rows = list(csv.DictReader(lines, strict=True))
            for row in rows:
                for name in COLUMNS[1:]:
                    value = study_cells.number(row[name])
                    row[name] = int(value) if name.endswith(("_worse", "_live", "_cells", "_lost")) else value
    except (OSError, KeyError, TypeError, ValueError, csv.Error) as error:
        raise StudyError(f"{path}: is no leader board: {error!r}") from error
    return made, rows


class Pages:
    """Where the board is written, below the folder `root`/docs."""

    def __init__(self, root):
        self.document = root / "docs" / "results" / "benchmark.md"
        self.table = root / "docs" / "measurements" / f"{MANIFEST.stem}.csv"

    def table_of(self):
        return study.table_in(self.document, "leaderboard")

    def wanted(self):
        """What the kept table says."""
        made, rows = read_csv(self.table)
        return f"- {made}.\n\n{board_table(rows)}"

    def write(self, board):
        self.table.write_text(board.csv(board.experiment.made), encoding="utf-8")
        self.document.write_text(study.with_tables(self.document, lambda _: self.wanted()), encoding="utf-8")


HEAD = ["policy", *(f"{which}: {what}" for which in ("open", "held out")
                    for what in (f"time over `{BASE}`", "worst", "worse of live", "near the best", "over the bound"))]


def board_table(rows):
    """A row a policy, the fastest on what is held out first."""
    def shown(row, which):
        of = {figure: row[f"{which}_{figure}"] for figure in FIGURES}
        near = "-" if of["near"] is None else f"{100 * of['near']:.0f} %"
        worse = f"{of['worse']} of {of['live']}" + (f", {of['lost']} lost" if of["lost"] else "")
        return [times(of["time"]), times(of["worst"]), worse, near, times(of["over_bound"])]
    return table(HEAD, [[f"`{row['policy']}`", *shown(row, "open"), *shown(row, "held_out")] for row in rows])


def arguments_of(words):
    parser = study.parser_of_pages(__doc__)
    parser.add_argument("--jobs", type=int, help="cells to run in parallel")
    parser.add_argument("--manifest", type=pathlib.Path, default=MANIFEST)
    return study.parsed(parser, words)


def main(words=None):
    arguments = arguments_of(words)
    pages = Pages(arguments.root)
    try:
        if not arguments.check:
            pages.write(Benchmark(arguments.manifest).run(study.find_program(arguments.vmart_lab), arguments.out,
                                                          jobs=arguments.jobs, made=arguments.made))
        elif pages.table_of() != pages.wanted():
            raise StudyError(f"{pages.document}: the leader board is not that of {pages.table}")
    except (StudyError, OSError, ValueError) as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
