"""One file of `cells/`: a line of JSON for one finished cell, checked as it is read."""

import json
import math

from vmart.lab.errors import ResultError
from vmart.lab.measure import bounded, measure_in, over_plan

CELL_TEXTS = ("id", "machine", "trace", "policy", "router", "pacing")
CELL_COUNTS = ("seed", "chunk_bytes")
# What tables and summaries are made of; null where there is nothing to make a number of.
METRICS = ("cost_s", "excess_ratio", "slowdown", "bytes_moved", "stopped_s", "thrashes", "rest_s",
           "accesses_lost")
BOUND_NUMBERS = ("lower_bound_s", "plan_s", "gap")


def read_json(path):
    """The JSON object in the file `path`. Raises ResultError, with the line where there is one."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ResultError(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise ResultError(path, f"no text: {error.reason} at byte {error.start}") from error
    try:
        value = json.loads(text, parse_constant=refuse_constant)
    except json.JSONDecodeError as error:
        raise ResultError(path, f"line {error.lineno}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise ResultError(path, str(error)) from error
    if not isinstance(value, dict):
        raise ResultError(path, "no JSON object")
    return value


def refuse_constant(text):
    raise ValueError(f"{text} is not a JSON number")


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class Report:
    """A replay's report, a dict as docs/guide/replay.md has it, checked as it is read. `path` names it in errors."""

    def __init__(self, path, report):
        self.path = path
        self.report = report

    def _part(self, document, name):
        part = document.get(name)
        if not isinstance(part, dict):
            raise ResultError(self.path, f'"{name}" is no object')
        return part

    def _number(self, name, value):
        if value is None:
            return None
        try:
            if is_number(value) and math.isfinite(value):
                return value
        except OverflowError:  # A whole number that no float is as large as.
            pass
        raise ResultError(self.path, f'"{name}" is neither a number nor null')

    def _numbers_in(self, document, name):
        part = self._part(document, name)
        for key, value in part.items():
            if self._number(f"{name}.{key}", value) is None:
                raise ResultError(self.path, f'"{name}.{key}" is null')
        return part

    def numbers(self, name):
        """The numbers by name that the report has under `name`; none where it has no such key."""
        return self._numbers_in(self.report, name) if name in self.report else {}

    def report_number(self, name):
        value = self._number(f"report.{name}", self.report.get(name))
        if value is None:
            raise ResultError(self.path, f'"report.{name}" is missing')
        return value

    def report_list(self, name, kind):
        """The list under `name`, all of whose members are of `kind`."""
        values = self.report.get(name, [])
        if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
            raise ResultError(self.path, f'"report.{name}" is no list of the kind that it should be')
        return values

    def devices(self):
        """Device, accesses and bytes of each device; none in reports that lack them."""
        places = self.report.get("places") or []
        rows = []
        for number, device in enumerate(self.report_list("devices", dict)):
            accesses, used = (self._number(f"report.devices.{name}", device.get(name))
                              for name in ("accesses", "bytes"))
            if accesses is None or used is None or number >= len(places):
                raise ResultError(self.path, f'"report.devices" does not say what device {number} did')
            rows.append((str(places[number]), accesses, used))
        return rows

    def inputs(self):
        """What the cell was made from, by name: the version of the program, and checksums."""
        inputs = self.report.get("inputs", {})
        return inputs if isinstance(inputs, dict) else {}

    def window_numbers(self, name):
        """Of each window, in their order, what it has under `name`; 0 where it has nothing."""
        windows = self.report_list("windows", dict)
        return [self._number(f"windows.{name}", window.get(name, 0)) or 0 for window in windows]

    def resident(self):
        """Places, and for each window the bytes at each place at its end."""
        places = self.report_list("places", str)
        rows = [window.get("resident") for window in self.report_list("windows", dict)]
        if not places or not any(row is not None for row in rows):
            return [], []
        for row in rows:
            good = isinstance(row, list) and len(row) == len(places) and all(map(is_number, row))
            if not good:
                raise ResultError(self.path, '"windows.resident" does not fit "places"')
        return places, rows


class CellFile(Report):
    """A cell as `vmart-lab run` wrote it.

    `row` has its names and scalar metrics (None where there is none), `links` the share of use
    (0 to 1) by link; `report` is the replay's report, as docs/guide/replay.md has it.
    """

    def __init__(self, path):
        document = read_json(path)
        super().__init__(path, document.get("report"))
        self.row = self._names(self._part(document, "cell"))
        metrics = self._part(document, "metrics")
        for name in METRICS:
            if name not in metrics:
                raise ResultError(path, f'"metrics.{name}" is missing')
        self.links = self._numbers_in(metrics, "links") if "links" in metrics else {}
        for name, value in metrics.items():
            if name != "links":
                self.row[name] = self._number(f"metrics.{name}", value)
        self._add_bound(document)
        self._add_measure(document)
        self._part(document, "report")

    def _names(self, cell):
        row = {}
        for name in CELL_TEXTS:
            row[name] = cell.get(name)
            if not isinstance(row[name], str):
                raise ResultError(self.path, f'"cell.{name}" is no text')
        for name in CELL_COUNTS:
            row[name] = cell.get(name)
            if not isinstance(row[name], int) or isinstance(row[name], bool):
                raise ResultError(self.path, f'"cell.{name}" is no whole number')
        if row["id"] != self.path.stem:
            raise ResultError(self.path, f'is the cell "{row["id"]}"')
        return row

    def _add_bound(self, document):
        bound = document.get("bound")
        if bound is not None and not isinstance(bound, dict):
            raise ResultError(self.path, '"bound" is neither an object nor null')
        bound = bound or {}
        for name in BOUND_NUMBERS:
            key = name if name.endswith("_s") else f"bound_{name}"
            self.row[key] = self._number(f"bound.{name}", bound.get(name))
        kind = bound.get("kind")
        if kind is not None and not isinstance(kind, str):
            raise ResultError(self.path, '"bound.kind" is no text')
        self.row["bound_kind"] = kind
        self.row["regret"] = self._number("regret", document.get("regret"))

    def _add_measure(self, document):
        bound, plan_s = document.get("bound"), self.row["plan_s"]
        self.row["measure"] = measure_in(document["cell"], self.row, bound)
        if self.row["measure"] not in self.row:
            raise ResultError(self.path, f'"metrics.{self.row["measure"]}" is missing')
        self.row["time_s"] = self.row[self.row["measure"]]
        self.row["over_plan"] = over_plan(bounded(self.row, bound), plan_s, self.row["regret"])
