"""The objects of an experiment's file, read by key. What is wrong is collected, so that all of it can be
told at once."""

import contextlib
import math

from vmart.lab.cell_file import is_number
from vmart.lab.errors import ExperimentError
from vmart.lab.experiments.worker import Refusal

SHOWN_MAX = 50


class Problem(Exception):
    """What is wrong, with its place: "small.json: traces[0].file: is empty"."""


class Problems:
    """All that are found in a file."""

    def __init__(self):
        self.found = []

    @contextlib.contextmanager
    def collect(self):
        try:
            yield
        except Problem as problem:
            self.found.append(str(problem))

    def require_none(self):
        if len(self.found) == 1:
            raise ExperimentError(self.found[0])
        if self.found:
            lines = [f"{len(self.found)} problems", *self.found[:SHOWN_MAX]]
            if len(self.found) > SHOWN_MAX:
                lines.append(f"and {len(self.found) - SHOWN_MAX} more")
            raise ExperimentError("\n  ".join(lines))


def shortest(value):
    """A value as text, numbers in the shortest form that is the same number; empty for lists, objects
    and null."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return str(value) if isinstance(value, (int, str)) else ""


class JsonObject:
    """One object. Each failure raises a Problem that names the file and the path of the key."""

    def __init__(self, value, file, path=""):
        self.value = value
        self.file = file
        self.path = path
        self.asked = set()
        if not isinstance(value, dict):
            self.refuse("", "is not an object")

    def place(self, key):
        if key == "":
            return self.path or "the whole file"
        return f"{self.path}.{key}" if self.path else key

    def where(self, key):
        return f"{self.file}: {self.place(key)}"

    def refuse(self, key, reason):
        raise Problem(f"{self.where(key)}: {reason}")

    @contextlib.contextmanager
    def at(self, key):
        """What a worker refuses is wrong at `key`."""
        try:
            yield
        except Refusal as error:
            self.refuse(key, str(error))

    def __contains__(self, key):
        return key in self.value

    def __getitem__(self, key):
        self.asked.add(key)
        if key not in self.value:
            self.refuse(key, "is missing")
        return self.value[key]

    def list(self, key):
        if not isinstance(self[key], list):
            self.refuse(key, "is not a list")
        return self.value[key]

    def object(self, key):
        if not isinstance(self[key], dict):
            self.refuse(key, "is not an object")
        return self.value[key]

    def text(self, key):
        if not isinstance(self[key], str):
            self.refuse(key, "must be a string")
        if not self.value[key]:
            self.refuse(key, "is empty")
        return self.value[key]

    def flag(self, key):
        if not isinstance(self[key], bool):
            self.refuse(key, "must be true or false")
        return self.value[key]

    def number(self, key, least, most):
        if not is_number(self[key]):
            self.refuse(key, "is not a number")
        number = float(self.value[key])
        if not (math.isfinite(number) and least <= number <= most):
            bounds = f"{shortest(float(least))} and {shortest(float(most))}"
            self.refuse(key, f"{shortest(number)} is not between {bounds}")
        return number

    def finish(self):
        """Refuses what was not asked for: known, but without effect in this combination."""
        for key in self.value:
            if key not in self.asked:
                self.refuse(key, "is not a known key of this object")


class Fields:
    """Reads each field of an object, whether or not others are wrong."""

    def __init__(self, problems, json, known, worker):
        self.problems = problems
        self.json = json
        self.before = len(problems.found)
        self.misspelt = set()
        for key in json.value:
            if key not in known:
                self._report_unknown(key, known, worker)

    def _report_unknown(self, key, known, worker):
        missing = [each for each in known if each not in self.json]
        meant = worker.ask("nearest", name=key, names=missing)["nearest"]
        hint = f'did you mean "{meant}"?' if meant else f"expected one of {', '.join(known)}"
        self.problems.found.append(f"{self.json.where(key)}: is not a known key of this object; {hint}")
        self.misspelt.add(meant)

    def read(self, key, how, *values):
        """What `how(*values)` returns; None if that is a problem. A key that is misspelt is not missing."""
        if key not in self.misspelt:
            with self.problems.collect():
                return how(*values)
        return None

    def read_if_there(self, key, how, *values, otherwise=None):
        return self.read(key, how, *values) if key in self.json else otherwise

    def finish(self):
        if len(self.problems.found) == self.before:
            with self.problems.collect():
                self.json.finish()
