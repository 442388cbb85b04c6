"""`results.csv` and `summary.csv`, made from finished cells. CSV as RFC 4180 has it, but with line feeds as
line ends."""

import csv
import io
import json
import math

from vmart.lab.errors import ExperimentError
from vmart.lab.experiments.fields import is_number, shortest

REPORT_KEY = b',"report":'
FIGURES = ("cost_s", "slowdown", "regret", "stall_s", "bytes_moved", "rest_s")
OTHER_NUMBERS = ("lower_bound_s", "regret")


class FinishedCell:
    """A finished cell as stored in its file, without its report."""

    def __init__(self, line):
        # The report comes last. Nothing before it can match the key: in strings, quotes are escaped.
        head = json.loads(line.partition(REPORT_KEY)[0] + b"}")
        self.metrics = {name: value for name, value in head["metrics"].items()
                        if not isinstance(value, (dict, list))}
        self.others = {"lower_bound_s": (head["bound"] or {}).get("lower_bound_s"), "regret": head["regret"]}


def inputs_in(line):
    """The inputs of a cell in its file, from its report; None if the line is not a complete cell."""
    try:
        cell = json.loads(line) if line.endswith(b"\n") else None
        complete = all(isinstance(cell[key], dict) for key in ("cell", "metrics", "report"))
        inputs = cell["report"]["inputs"] if complete and {"bound", "regret"} <= cell.keys() else None
    except (ValueError, TypeError, KeyError):
        return None
    return inputs if isinstance(inputs, dict) else None


def field(value):
    """A number as text, empty for all else."""
    return shortest(value) if is_number(value) else ""


def csv_text(lines):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


class ResultsTable:
    """The rows of cells. `t_point(freedom)` is a quantile of Student's distribution, see `spread_of`."""

    def __init__(self, t_point):
        self.t_point = t_point
        self.rows = {}  # Cell and finished cell, by number.
        self.metrics = None  # The names of the first cell; all have the same.

    def set(self, number, cell, finished, path):
        """Raises ExperimentError if its metrics differ from those of earlier cells."""
        names = list(finished.metrics)
        if self.metrics not in (None, names):
            raise ExperimentError(f"{path}: has other metrics than the cells before it: another version wrote it; "
                                  "choose another folder with --out, or remove it")
        self.metrics = names
        self.rows[number] = (cell, finished)

    def _in_order(self):
        return [self.rows[number] for number in sorted(self.rows)]

    def csv(self):
        """A header line, then a row per cell, in the order of the experiment."""
        if not self.rows:
            return ""
        lines = [["id", "machine", "trace", "kind", "policy", "router", "seed", *self.metrics, *OTHER_NUMBERS]]
        for cell, finished in self._in_order():
            lines.append([cell.id, cell.machine.name, cell.trace.name, cell.trace.kind, cell.policy, cell.router,
                          cell.seed, *map(field, finished.metrics.values()), *map(field, finished.others.values())])
        return csv_text(lines)

    def summary(self):
        """A row for all cells that differ only in the seed, in the order of the rows' first cells."""
        groups = {}
        for cell, finished in self._in_order():
            key = (cell.machine.name, cell.trace.name, cell.policy, cell.router)
            groups.setdefault(key, []).append(finished.metrics | finished.others)
        lines = [["machine", "trace", "policy", "router", "seeds",
                  *(f"{name}_{what}" for name in FIGURES for what in ("mean", "half_width", "n"))]]
        for key, numbers in groups.items():
            line = [*key, len(numbers)]
            for name in FIGURES:
                values = [float(each[name]) for each in numbers if is_number(each.get(name))]
                line += [*map(field, spread_of(values, self.t_point)), len(values)]
            lines.append(line)
        return csv_text(lines)


def spread_of(values, t_point):
    """The mean of the values of several seeds (None without values), and the distance within which the true
    mean is with 95 % confidence, if the values are normal (None for fewer than two): t(0.975; n - 1) *
    standard deviation / sqrt(n), with Student's distribution."""
    if not values:
        return None, None
    mean = added(values) / len(values)
    if len(values) < 2:
        return mean, None
    deviation = math.sqrt(added((value - mean) * (value - mean) for value in values) / (len(values) - 1))
    return mean, t_point(len(values) - 1) * deviation / math.sqrt(len(values))


def added(values):
    """In this order, each step rounded: what `sum` does depends on the version of Python."""
    total = 0.0
    for value in values:
        total += value
    return total
