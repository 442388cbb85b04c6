"""`results.csv` and `summary.csv`, made from finished cells. CSV as RFC 4180 has it, but with line feeds as
line ends."""

import math
from typing import NamedTuple

from vmart.lab.cell_file import is_number
from vmart.lab.errors import ExperimentError
from vmart.lab.experiments.fields import shortest
from vmart.lab.experiments.worker import parsed
from vmart.lab.measure import bounded, is_tight, measure_in, over_plan

REPORT_KEY = b',"report":'
FIGURES = ("time_s", "slowdown", "regret", "over_plan", "stall_s", "bytes_moved", "rest_s")
OTHER_NUMBERS = ("time_s", "lower_bound_s", "plan_s", "regret", "over_plan", "bound_tight")


class FinishedCell(NamedTuple):
    """What the tables need of a finished cell."""

    metrics: dict  # Scalars.
    measure: str
    others: dict
    bound: dict


def is_bound(value):
    return value is None or isinstance(value, dict) and is_number(value.get("lower_bound_s"))


def number_or_none(value):
    return value if is_number(value) else None


def finished_cell(line):
    """The inputs of a cell in its file, and the FinishedCell; None if the line is not a complete cell, or not as
    `vmart-lab` writes it."""
    cell = parsed(line) if REPORT_KEY in line else None
    if cell is None or not all(isinstance(cell.get(key), dict) for key in ("cell", "metrics", "report")):
        return None
    if not {"bound", "regret"} <= cell.keys() or not is_bound(cell["bound"]):
        return None
    inputs, bound, regret = cell["report"].get("inputs"), cell["bound"] or {}, cell["regret"]
    if not isinstance(inputs, dict) or not (regret is None or is_number(regret)):
        return None
    metrics = {name: value for name, value in cell["metrics"].items() if not isinstance(value, (dict, list))}
    measure, plan_s = measure_in(cell["cell"], metrics, bound), number_or_none(bound.get("plan_s"))
    return inputs, FinishedCell(metrics, measure, {
        "time_s": metrics.get(measure), "lower_bound_s": bound.get("lower_bound_s"), "plan_s": plan_s, "regret": regret,
        "over_plan": over_plan(number_or_none(bounded(metrics, bound)), plan_s, regret)}, bound)


def finished_bound(line):
    """The `inputs` and the `bound` of a bound's file; None if the line is not complete."""
    known = parsed(line)
    if known is None or not isinstance(known.get("inputs"), dict) or "bound" not in known:
        return None
    return (known["inputs"], known["bound"]) if is_bound(known["bound"]) else None


def field(value):
    """A number as text, empty for all else."""
    return shortest(value) if is_number(value) else ""


def csv_text(lines):
    """By hand: which values the module `csv` quotes depends on the version of Python."""
    return "".join(",".join(map(quoted, line)) + "\n" for line in lines)


def quoted(value):
    text = str(value)
    return '"{}"'.format(text.replace('"', '""')) if any(mark in text for mark in ',"\r\n') else text


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

    def _tight(self):
        """Whether the bound was shown to be tight, as 1 or 0, by its id; of those that there are."""
        cells = {}
        for cell, finished in self._in_order():
            if finished.bound:
                cells.setdefault(cell.bound_id, []).append(finished)
        return {identity: int(is_tight(found[0].bound.get("kind"), number_or_none(found[0].bound.get("gap")),
                                       [each.others["regret"] for each in found]))
                for identity, found in cells.items()}

    def csv(self):
        """A header line, then a row per cell, in the order of the experiment."""
        if not self.rows:
            return ""
        lines = [["id", "machine", "trace", "kind", "policy", "router", "seed", *self.metrics, "measure",
                  *OTHER_NUMBERS]]
        tight = self._tight()
        for cell, finished in self._in_order():
            lines.append([cell.id, cell.machine.name, cell.trace.name, cell.trace.kind, cell.policy, cell.router,
                          cell.seed, *map(field, finished.metrics.values()), finished.measure,
                          *map(field, finished.others.values()), field(tight.get(cell.bound_id))])
        return csv_text(lines)

    def summary(self):
        """A row for all cells that differ only in the seed, in the order of the rows' first cells. Regret over a bound
        that was not shown to be tight says nothing of a policy."""
        groups, tight = {}, self._tight()
        for cell, finished in self._in_order():
            key = (cell.machine.name, cell.trace.name, cell.policy, cell.router)
            regret = finished.others["regret"] if tight.get(cell.bound_id) else None
            groups.setdefault((*key, finished.measure), []).append(finished.metrics | finished.others | {"regret": regret})
        lines = [["machine", "trace", "policy", "router", "seeds", "measure",
                  *(f"{name}_{what}" for name in FIGURES for what in ("mean", "half_width", "n"))]]
        for (*key, measure), numbers in groups.items():
            line = [*key, len(numbers), measure]
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
