"""The cells of the study, condensed: what result folders of `vmart-lab run` come down to, and the table that is
kept of them, docs/measurements/study.csv. Standard library only."""

import csv
import hashlib
import math
import statistics

BASE = "static"
MAKESPAN = "seconds"  # The measure of closed loops, as `vmart-lab run` names it.
DIFFERENT = 1.01  # Over the base, or the base over it.
# `time_s` is the makespan of a closed loop and the cost of an open one, whose makespan no policy can change.
# `moved` is bytes moved over bytes accessed, `stalled` stalls over the whole time.
NAMES = ("machine", "trace", "kind", "seed", "policy", "loop")
NUMBERS = ("time_s", "over_bound", "moved", "stalled", "lost")
COLUMNS = ("experiment", *NAMES, *NUMBERS)
DIGITS = 6


class StudyError(Exception):
    """A file that is not what it should be."""


def number(text):
    """Of what a table has; None where that is empty."""
    value = float(text) if text not in ("", None) else None
    if value is not None and not math.isfinite(value):
        raise ValueError(f"{text} is not a number")
    return value


def share(part, whole):
    return part / whole if part is not None and whole else None


def is_test(trace):
    """Whether a real trace is of the test set."""
    return int(hashlib.sha256(trace.encode()).hexdigest()[0], 16) % 2 == 1


class Cell:
    """One machine, trace, seed and policy of an experiment."""

    def __init__(self, row):
        for name in NAMES:
            setattr(self, name, row[name])
        for name in NUMBERS:
            setattr(self, name, number(row[name]))
        if self.kind not in ("real", "synthetic"):
            raise ValueError(f"a trace is real or synthetic, not {self.kind}")
        if self.time_s is None or not self.time_s > 0:
            raise ValueError(f"a time of {row['time_s'] or 'nothing'}")

    @property
    def place(self):
        return self.machine, self.trace, self.seed

    def row(self):
        numbers = ("" if value is None else f"{value:.{DIGITS}g}"
                   for value in (getattr(self, name) for name in NUMBERS))
        return [*(getattr(self, name) for name in NAMES), *numbers]


class Experiment:
    """The cells of one experiment, in its order. `made` says of what commit they are."""

    def __init__(self, name, cells, made):
        self.name, self.cells, self.made = name, cells, made
        self.machines, self.traces, self.policies = (
            list(dict.fromkeys(getattr(cell, part) for cell in cells)) for part in ("machine", "trace", "policy"))
        self._found, self._live = {}, set()
        for cell in cells:
            if self._found.setdefault((*cell.place, cell.policy), cell) is not cell:
                raise StudyError(f"{name}: {', '.join(cell.place)}: two cells of {cell.policy}; a study has one "
                                 "router")

    def ratio(self, cell):
        """Its time over that of the base; None where one of them lost accesses, or there is no base."""
        base = self._found.get((*cell.place, BASE))
        return None if base is None or base.lost or cell.lost else cell.time_s / base.time_s

    def ratios(self, policy, machine=None, trace=None, wanted=lambda cell: True):
        """Of all cells of the policy that have one."""
        return [ratio for cell in self.cells
                if cell.policy == policy and machine in (None, cell.machine) and trace in (None, cell.trace)
                and wanted(cell) and (ratio := self.ratio(cell)) is not None]

    def is_live(self, cell):
        """Whether any policy differs from the base by more than `DIFFERENT` in the cell's place."""
        if not self._live:
            for each in self.cells:
                ratio = self.ratio(each)
                if ratio is not None and max(ratio, 1 / ratio) > DIFFERENT:
                    self._live.add(each.place)
        return cell.place in self._live

    def base(self, machine, trace):
        """The base's cell with the first seed; None if there is none."""
        return next((cell for cell in self.cells
                     if (cell.machine, cell.trace, cell.policy) == (machine, trace, BASE)), None)


class Study:
    """All experiments by name."""

    def __init__(self, experiments):
        self.experiments = {each.name: each for each in experiments}

    def replaced(self, experiment):
        """This study with the experiment made anew."""
        return Study({**self.experiments, experiment.name: experiment}.values())

    def write(self, path):
        with path.open("w", encoding="utf-8", newline="") as file:
            for each in self.experiments.values():
                file.write(f"# {each.name}: {each.made}\n")
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            for each in self.experiments.values():
                writer.writerows([each.name, *cell.row()] for cell in each.cells)


def read_heads(path, lines):
    """How each experiment was made, by name, and the line with the columns."""
    made, count = {}, 0
    for line in lines:
        count += 1
        name, colon, how = line.removeprefix("# ").strip().partition(": ")
        if not line.startswith("# ") or not colon:
            break
        made[name] = how
    if not made:
        raise StudyError(f"{path}: line 1: does not say how it was made")
    missing = [name for name in COLUMNS if name not in line.strip().split(",")]
    if missing:
        raise StudyError(f"{path}: line {count}: there is no column {missing[0]}")
    return made, count, line.strip().split(",")


def read_table(path):
    """The study that `Study.write` has written. Throws StudyError with file, line and reason."""
    cells = {}
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            made, head, names = read_heads(path, lines)
            for at, row in enumerate(csv.DictReader(lines, names, strict=True), head + 1):
                try:
                    cells.setdefault(row["experiment"], []).append(Cell(row))
                except (TypeError, ValueError) as error:
                    raise StudyError(f"{path}: line {at}: {error}") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StudyError(f"{path}: {error}") from error
    if set(cells) != set(made):
        raise StudyError(f"{path}: has cells of {', '.join(cells) or 'nothing'}, and says how "
                         f"{', '.join(made)} was made")
    return Study(Experiment(name, each, made[name]) for name, each in cells.items())


def cells_in(folder, cell_of):
    """`cell_of` each row of a result folder's table, where it gives one."""
    path = folder / "results.csv"
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            cells = [cell for row in csv.DictReader(lines, strict=True) if (cell := cell_of(row)) is not None]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StudyError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise StudyError(f"{path}: is no table of results: {error!r}") from error
    if not cells:
        raise StudyError(f"{path}: has no cells")
    return cells


def time_of(row, loop):
    return row["seconds"] if loop == "closed" else row["cost_s"]


def cell_of(row, loop, over_bound):
    return Cell({**row, "loop": loop, "time_s": time_of(row, loop), "over_bound": over_bound,
                 "moved": share(number(row["bytes_moved"]), number(row["bytes"])),
                 "stalled": share(number(row["stall_s"]), number(row["seconds"])),
                 "lost": row["accesses_lost"]})


def condense(name, folder, made):
    """The experiment in a result folder in which all cells have finished."""
    def cell(row):
        regret = number(row["regret"])
        return cell_of(row, "closed" if row["measure"] == MAKESPAN else "open", None if regret is None else 1 + regret)
    return Experiment(name, cells_in(folder, cell), made)


def condense_again(kept, folder, policies, made):
    """The experiment that was kept, with the cells of some policies from a result folder. Bounds, which no policy
    changes, are as they were. Throws StudyError unless the folder has all of these cells."""
    before = {(*cell.place, cell.policy): cell for cell in kept.cells if cell.policy in policies}

    def cell(row):
        old = before.get(tuple(row[name] for name in ("machine", "trace", "seed", "policy")))
        if old is None:
            return None
        bound = old.over_bound and old.over_bound * number(time_of(row, old.loop)) / old.time_s
        return cell_of(row, old.loop, bound)
    found = {(*each.place, each.policy): each for each in cells_in(folder, cell)}
    missing = [key for key in before if key not in found]
    if missing:
        raise StudyError(f"{folder}: has no cell {', '.join(missing[0])}")
    return Experiment(kept.name, [found.get((*each.place, each.policy), each) for each in kept.cells],
                      f"{kept.made}, and of {', '.join(f'`{policy}`' for policy in policies)} {made}")


def geometric_mean(values):
    """None of no values."""
    values = list(values)
    return statistics.geometric_mean(values) if values else None
