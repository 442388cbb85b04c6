"""What ServeGen knows of a client: chunk-N-trace.csv, with a line for each window of time: its first second, requests
a second, their coefficient of variation, the kind of distribution of the gaps and its two parameters; and
chunk-N-dataset.json, with the distributions of token counts from some seconds on."""

import bisect
import itertools
import json
import os
import re
from typing import NamedTuple

from vmart.lab.importers.input_lines import Refused, each_good_line, file_beside, lines_of, opened, whole_number
from vmart.lab.importers.kv_requests import TOKENS_MAX

TRACE, DATASET = "-trace.csv", "-dataset.json"
TRACE_FILE = re.compile(r"chunk-(\d+)-trace\.csv(?:\.gz)?", re.ASCII)
DATASET_BYTES_MAX = 64 << 20
SECONDS_MAX = 1 << 33
NUMBER = re.compile(r"\d+(?:\.\d*)?(?:e[-+]?\d+)?", re.ASCII | re.IGNORECASE)
ENTRY = re.compile(r"\s*(\d{1,12})(?:\.\d*)?: ([-+.e\d]{1,40})\s*", re.ASCII | re.IGNORECASE)
TEXT_FIELDS = ("input_tokens", "text_tokens")
MEDIA = ("image", "audio", "video")


def trace_paths(path):
    """The client's file, or those of all clients in a folder, by their numbers. Raises ValueError if there is
    none."""
    if not os.path.isdir(path):
        return [path]
    found = [name for name in os.listdir(path) if TRACE_FILE.fullmatch(name)]
    if not found:
        raise ValueError(f"{path}: has no chunk-*{TRACE}")
    return [os.path.join(path, name) for name in sorted(found, key=lambda one: int(TRACE_FILE.fullmatch(one)[1]))]


def dataset_path(path):
    """Of the client whose windows are in `path`. Raises ValueError if it is missing."""
    return file_beside(path, TRACE, DATASET)


class BadLinesOf:
    """The bad lines of one of several files, which have one counter."""

    def __init__(self, bad, path):
        self._bad = bad
        self._of = "" if path == bad.path else f"of {os.path.basename(path)}: "

    def add(self, line, reason):
        self._bad.add(line, f"{self._of}{reason}")


class Window(NamedTuple):
    """How requests arrive: `kind` of their gaps is Gamma or Weibull, of this shape; "" if there are none."""

    begin: int
    rate: float
    kind: str
    shape: float


class Distribution:
    """Token counts and how likely each is, as text such as {81: 0.4, 82: 0.6}."""

    def __init__(self, text):
        entries = [ENTRY.fullmatch(one) for one in text.strip()[1:-1].split(",")]
        if not text.strip().startswith("{") or not all(entries):
            raise Refused("is not a distribution of whole numbers")
        shares = sorted((int(one[1]), _number(one[2])) for one in entries)
        self._counts = [count for count, _ in shares]
        self._sums = list(itertools.accumulate(share for _, share in shares))
        if self._counts[-1] > TOKENS_MAX or not self._sums[-1] > 0:
            raise Refused("is not a distribution of token counts")

    def at(self, quantile):
        place = bisect.bisect_right(self._sums, quantile * self._sums[-1])
        return self._counts[min(place, len(self._counts) - 1)]


def _number(text):
    """Raises Refused if it is no number of at least 0."""
    if not NUMBER.fullmatch(text) or (value := float(text)) > 1e12:
        raise Refused(f'"{text}" is not a number from 0 to 1000000000000')
    return value


def _window(line):
    fields = line.split(",")
    if len(fields) != 6:
        raise Refused(f"has {len(fields)} fields, not 6")
    begin = whole_number(fields[0], "the first second", 0, SECONDS_MAX)
    if fields[3] not in ("", "Gamma", "Weibull"):
        raise Refused(f'"{fields[3]}" is not a kind of gaps')
    window = Window(begin, _number(fields[1]), fields[3], _number(fields[4]))
    if window.kind and not 0.01 <= window.shape <= 1e6:
        raise Refused(f"a shape of {fields[4]} is not from 0.01 to 1000000")
    return window


class Client:
    """Raises ValueError that names the file if one cannot be used."""

    def __init__(self, path, bad):
        self.windows = self._read_windows(path, bad)
        self._path = dataset_path(path)
        self._texts = self._read_dataset()  # Of each field, by the second from which on they hold.
        self._begins = sorted(self._texts)
        self._decoded = None, {}  # The last of them that was used.

    def lengths(self, second):
        """The distributions that hold then, by field; None if there are none."""
        place = bisect.bisect_right(self._begins, second)
        if not place:
            return None
        begin = self._begins[place - 1]
        if self._decoded[0] != begin:
            self._decoded = begin, {field: self._distribution(begin, field) for field in self._fields(begin)}
        return self._decoded[1]

    @staticmethod
    def _read_windows(path, bad):
        windows = []

        def read(line):
            window = _window(line)
            if windows and window.begin <= windows[-1].begin:
                raise Refused("is not later than the window above it")
            windows.append(window)

        each_good_line(lines_of(path), BadLinesOf(bad, path), 0, read)
        return windows

    def _read_dataset(self):
        with opened(self._path) as file:
            text = file.read(DATASET_BYTES_MAX + 1)
        if len(text) > DATASET_BYTES_MAX:
            raise ValueError(f"{self._path}: has more than {DATASET_BYTES_MAX} bytes")
        try:
            dataset = json.loads(text)
            whole = {whole_number(begin, "second", 0, SECONDS_MAX): fields for begin, fields in dataset.items()}
            empty = [begin for begin, fields in whole.items() if "{}" in fields.values()]
        except (ValueError, RecursionError, AttributeError, Refused) as error:
            raise ValueError(f"{self._path}: is not a dataset of ServeGen: {error}") from None
        for begin in empty:
            del whole[begin]  # Nobody asked then: the distributions before hold on, as in ServeGen.
        return whole

    def _fields(self, begin):
        fields = self._texts[begin]
        wanted = [name for name in TEXT_FIELDS if name in fields][:1]
        if not wanted or "output_tokens" not in fields:
            raise ValueError(f"{self._path}: {begin}: has no {' or '.join(TEXT_FIELDS)}, or no output_tokens")
        wanted += [f"{medium}_{what}" for medium in MEDIA for what in ("tokens", "count")
                   if f"{medium}_tokens" in fields and f"{medium}_count" in fields]
        return [*wanted, "output_tokens"]

    def _distribution(self, begin, field):
        try:
            return Distribution(str(self._texts[begin][field]))
        except Refused as reason:
            raise ValueError(f"{self._path}: {begin}: {field}: {reason}") from None
