"""The cells of the study, condensed: what a result folder of `vmart-lab run` comes down to, and the
small table that is kept of it, docs/measurements/study.csv. Standard library only."""

import csv
import json
import math
import statistics

NAMES = ("machine", "trace", "policy")
# Of each GPU, seconds but for the counts and shares at the end; `moved` and `stall` are bytes moved
# over bytes accessed, and stalls over the whole time.
NUMBERS = ("hbm_gib", "cost_s", "lower_bound_s", "plan_s", "slowdown", "moved", "stall", "own_share",
           "peer_share", "host_share", "thrashes", "lost")
# What the bound limits, in seconds. Tables of before have no such column: in them it was the cost.
BOUNDED = "access_move_s"
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


class Cell:
    """One machine, trace and policy."""

    def __init__(self, row):
        self.machine, self.trace, self.policy = (row[name] for name in NAMES)
        for name in NUMBERS:
            setattr(self, name, number(row[name]))
        if self.cost_s is None or not self.cost_s > 0:
            raise ValueError(f"a cost of {row['cost_s'] or 'nothing'}")
        bounded = number(row.get(BOUNDED))
        self.access_move_s = self.cost_s if bounded is None else bounded

    @property
    def over_bound(self):
        """Time of accesses and moves over the lower bound; None without one, and where accesses were lost."""
        return None if self.lost or not self.lower_bound_s else self.access_move_s / self.lower_bound_s

    def row(self):
        return [self.machine, self.trace, self.policy,
                *("" if value is None else f"{value:.{DIGITS}g}"
                  for value in (getattr(self, name) for name in (*NUMBERS, BOUNDED)))]


class Scenario:
    """All policies on one machine and trace."""

    def __init__(self, cells):
        self.machine, self.trace = cells[0].machine, cells[0].trace
        self.cells = {cell.policy: cell for cell in cells}
        sound = [cell for cell in cells if not cell.lost]
        self.cheapest = min(sound, key=lambda cell: cell.cost_s) if sound else None

    @property
    def fair(self):
        """No policy lost accesses: all did the same work."""
        return not any(cell.lost for cell in self.cells.values())

    def over_cheapest(self, policy):
        cell = self.cells.get(policy)
        return None if cell is None or cell.lost else cell.cost_s / self.cheapest.cost_s


class Study:
    """Cells in the order of the experiment; `made` says of what commit they are."""

    def __init__(self, cells, made):
        self.cells, self.made = cells, made
        self.machines, self.traces, self.policies = (
            list(dict.fromkeys(getattr(cell, name) for cell in cells)) for name in NAMES)
        groups = {}
        for cell in cells:
            group = groups.setdefault((cell.machine, cell.trace), [])
            if any(other.policy == cell.policy for other in group):
                raise StudyError(f"{cell.machine}, {cell.trace}: two cells of {cell.policy}; a study has "
                                 "one router and one seed")
            group.append(cell)
        self.scenarios = [Scenario(group) for group in groups.values()]

    def of_machine(self, machine):
        return [each for each in self.scenarios if each.machine == machine]

    def write(self, path):
        with path.open("w", encoding="utf-8", newline="") as file:
            file.write(f"# {self.made}\n")
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*NAMES, *NUMBERS, BOUNDED])
            writer.writerows(cell.row() for cell in self.cells)


def read_rows(path, lines, line):
    """Cells of a table whose head is the next line, number `line`."""
    reader = csv.DictReader(lines, strict=True)
    missing = [name for name in (*NAMES, *NUMBERS) if name not in (reader.fieldnames or [])]
    if missing:
        raise StudyError(f"{path}: line {line}: there is no column {missing[0]}")
    for row in reader:
        try:
            yield Cell(row)
        except (TypeError, ValueError) as error:
            raise StudyError(f"{path}: line {line + reader.line_num - 1}: {error}") from error


def read_table(path):
    """The study that `Study.write` has written. Throws StudyError with file, line and reason."""
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            made = next(lines, "")
            if not made.startswith("# "):
                raise StudyError(f"{path}: line 1: does not say how it was made")
            cells = list(read_rows(path, lines, 2))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StudyError(f"{path}: {error}") from error
    if not cells:
        raise StudyError(f"{path}: has no cells")
    return Study(cells, made[2:].strip())


def read_bounds(folder):
    """Of each machine and trace: capacity of a GPU and the best known plan, where there are any."""
    found = {}
    for path in sorted((folder / "bounds").glob("*.json")):
        try:
            line = json.loads(path.read_text(encoding="utf-8"))
            inputs, bound = line["inputs"], line["bound"] or {}
            hbm = inputs.get("hbm_bytes")
            found[inputs["machine"], inputs["trace"]] = {
                "hbm_gib": "" if hbm is None else hbm / 2**30, "plan_s": bound.get("plan_s") or ""}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StudyError(f"{path}: is no bound: {error!r}") from error
    return found


def condense(folder, made):
    """The study in a result folder in which all cells have finished."""
    path = folder / "results.csv"
    bounds = read_bounds(folder)
    cells = []
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines, strict=True):
                moved = share(number(row["bytes_moved"]), number(row["bytes"]))
                stall = share(number(row["stall_s"]), number(row["seconds"]))
                known = bounds.get((row["machine"], row["trace"]), {"hbm_gib": "", "plan_s": ""})
                cells.append(Cell({**row, **known, "moved": moved, "stall": stall,
                                   "lost": row["accesses_lost"]}))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StudyError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise StudyError(f"{path}: is no table of results: {error!r}") from error
    if not cells:
        raise StudyError(f"{path}: has no cells")
    return Study(cells, made)


def geometric_mean(values):
    """None of no values."""
    values = list(values)
    return statistics.geometric_mean(values) if values else None
