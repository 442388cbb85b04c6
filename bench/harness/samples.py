"""What the samples of `run.py` mean: medians, quartiles, the verdict of a bar, and how a table shows them."""

import json
import pathlib
import re
import statistics


def table(headers, rows):
    """A table in GitHub's markdown."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in [headers, *rows]) for column in range(len(headers))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths))
             for row in [headers, ["-" * width for width in widths], *rows]]
    return "\n".join(f"| {line} |" for line in lines)


def show_us(value):
    if value is None:
        return "-"
    if value >= 10000:
        return f"{value / 1000:.1f} ms"
    if value >= 1000:
        return f"{value / 1000:.2f} ms"
    return f"{value:.3g} us" if value < 100 else f"{value:.0f} us"


def share(value):
    return "-" if value is None else f"{100 * value:.1f} %"


def number(value, digits=0):
    return "-" if value is None else f"{value:.{digits}f}"


def at_fraction(values, fraction):
    """As samples.cpp has it."""
    ordered = sorted(values)
    return ordered[int((len(ordered) - 1) * fraction + 0.5)]


class Samples:
    """The samples of one benchmark over all processes, in microseconds, with their counters."""

    def __init__(self, entry):
        self.name = entry["name"]
        self.us = sorted(entry["samples_us"])
        self.counters = entry["counters"]
        self.processes = entry["processes"]
        self.series = entry.get("series", {})

    def median(self):
        return statistics.median(self.us)

    def quartiles(self):
        if len(self.us) < 2:
            return self.us[0], self.us[0]
        low, _, high = statistics.quantiles(self.us, n=4, method="inclusive")
        return low, high

    def counter(self, name):
        """The median over repetitions, None where the benchmark has no such counter."""
        values = self.counters.get(name)
        return statistics.median(values) if values else None

    def counter_max(self, name):
        values = self.counters.get(name)
        return max(values) if values else None

    def total(self, name):
        return sum(self.counters.get(name, []))


class Measurements:
    """One file of run.py's, by benchmark name."""

    def __init__(self, document):
        self.context = document["context"]
        self.gpus = self.context["gpu_count"]
        self.failed = document.get("failed", [])
        self.open_cost = document.get("open_cost", [])
        self._by_name = {entry["name"]: Samples(entry) for entry in document["results"]}

    def get(self, name):
        return self._by_name.get(name)

    def matching(self, pattern):
        return [samples for name, samples in self._by_name.items() if re.fullmatch(pattern, name)]

    def first(self, pattern):
        return next(iter(self.matching(pattern)), None)


def bytes_of(label):
    count, unit = re.fullmatch(r"(\d+)(GiB|MiB|B)", label).groups()
    return int(count) * {"GiB": 1 << 30, "MiB": 1 << 20, "B": 1}[unit]


def size_key(samples):
    """Sorts benchmarks by route and then by size."""
    parts = samples.name.split("/")
    return parts[:-1], bytes_of(parts[-1])


BAR_HEADERS = ["what", "measured", "bar", ""]


def verdict(ok):
    return "?" if ok is None else "met" if ok else "MISSED"


def missing(what, bar):
    return [what, "not measured", bar, "?"]


def measured_first(rows):
    return sorted(rows, key=lambda row: row[1] == "not measured")


def write_document(path, document, *listed):
    """One entry of the `listed` a line, so that a committed file can be read and compared."""
    text = json.dumps({key: value for key, value in document.items() if key not in listed}, indent=1)[:-2]
    for key in listed:
        lines = ",\n  ".join(json.dumps(entry) for entry in document.get(key, []))
        text += f',\n "{key}": [\n  {lines}\n ]'
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(path).write_text(text + "\n}\n")
