"""The lines and records of a foreign file, which may be compressed; those that cannot be used are counted."""

import contextlib
import gzip
import json
import os
import sys
import zlib

from vmart.lab.importers.parameters import number_text

LINE_CHARACTERS_MAX = 256 << 10
READ_BYTES_MAX = 4 * (LINE_CHARACTERS_MAX + 1)  # More characters than a line may have, whatever they are.
BAD_LINES_MAX = 100
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class Refused(Exception):
    """Why a line cannot be used; its reader counts it as a bad line."""


class BadLines:
    """The bad lines of one file. Raises ValueError once there are more than `most`."""

    def __init__(self, path, most=BAD_LINES_MAX):
        self.path = path
        self.most = most
        self.lines = []

    def add(self, line, reason):
        self.lines.append((line, str(reason)))
        count = len(self.lines)
        if count <= self.most:
            return
        text = f"{self.path}: line {line}: {reason}"
        if count > 1:
            first = self.lines[0]
            text += f"; {count} bad lines, at most {self.most}; the first is line {first[0]}: {first[1]}"
        raise ValueError(text)


@contextlib.contextmanager
def opened(path):
    """The bytes of a file, which may be compressed. "-" is the standard input. Raises ValueError that names the
    file, if it cannot be read."""
    try:
        with _opened(path) as file:
            yield file
    except (OSError, EOFError, zlib.error) as error:
        reason = os.strerror(error.errno) if getattr(error, "errno", None) else error
        raise ValueError(f"{path}: {reason}") from error


def file_beside(path, end, other):
    """Of NAME and `end` the file NAME and `other`; each may be compressed. Raises ValueError if there is none."""
    name, found, _ = path.rpartition(end)
    for beside in (name + other, name + other + ".gz"):
        if found and os.path.exists(beside):
            return beside
    raise ValueError(f"{path}: expected NAME{end} with NAME{other} in the same folder")


def lines_of(path):
    """Yields the number and the text of each line, without its end. Raises ValueError as `opened`."""
    with opened(path) as file:
        for number, line in enumerate(_byte_lines(file), start=1):
            line = line.decode("utf-8", "surrogateescape").removesuffix("\n").removesuffix("\r")
            yield number, line


def records_of(path, layout):
    """Yields the number and the fields of each record that the struct `layout` describes. Raises ValueError as
    `opened`, and if the last one is cut off."""
    with opened(path) as file:
        number = 0
        while record := file.read(layout.size):
            number += 1
            if len(record) < layout.size:
                raise ValueError(f"{path}: record {number}: is cut off after {len(record)} of {layout.size} bytes")
            yield number, layout.unpack(record)


def _byte_lines(file):
    """Only the begin of a line that is too long."""
    while line := file.readline(READ_BYTES_MAX):
        yield line
        while len(line) == READ_BYTES_MAX and not line.endswith(b"\n"):
            line = file.readline(READ_BYTES_MAX)


def _opened(path):
    file = sys.stdin.buffer if path == "-" else open(path, "rb")
    begin = file.peek(4)
    if begin.startswith(ZSTD):
        file.close()
        raise ValueError(f"{path}: is compressed by zstd, which Python cannot read: unpack it with zstd -d")
    return gzip.open(file) if begin.startswith(GZIP) else file


def each_good_line(lines, bad, lines_max, read):
    """Calls `read` with each line that is not empty, until it has accepted `lines_max` (0: all). What it
    refuses is a bad line."""
    good = 0
    for number, line in lines:
        if not line.strip(" \t"):
            continue
        try:
            if len(line) > LINE_CHARACTERS_MAX:
                raise Refused("is too long")
            read(line)
        except Refused as reason:
            bad.add(number, reason)
            continue
        good += 1
        if good == lines_max:
            return


def each_json_line(path, bad, lines_max, read):
    """The same for lines that are JSON objects: `read` takes a `Members`."""
    each_good_line(lines_of(path), bad, lines_max, lambda line: read(Members(line)))


def each_csv_line(path, header, bad, lines_max, read):
    """The same for the comma-separated fields of each line after the header; there are no quoted ones.
    Raises ValueError if the first line is not `header`."""
    columns = header.count(",") + 1
    lines = lines_of(path)

    def read_fields(line):
        fields = line.split(",")
        if len(fields) != columns:
            raise Refused(f"has {len(fields)} fields, not {columns}")
        read(*fields)

    if next(lines, (0, None))[1] != header:
        raise ValueError(f'{path}: line 1: is not "{header}"')
    each_good_line(lines, bad, lines_max, read_fields)


def whole_number(text, what, least, most):
    value = int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else -1
    if not least <= value <= most:
        raise Refused(f'{what}: "{text}" is not a whole number from {least} to {most}')
    return value


class Members:
    """The members of the JSON object in one line. All verbs raise Refused."""

    def __init__(self, line):
        try:
            self.members = json.loads(line, parse_constant=_no_constant)
        except json.JSONDecodeError as error:
            raise Refused(f"{error.msg} at column {error.colno}") from None
        except (ValueError, RecursionError) as error:
            raise Refused(str(error)) from None
        if not isinstance(self.members, dict):
            raise Refused("the line: the whole file: is not an object")

    def get(self, key):
        if key not in self.members:
            raise Refused(f"the line: {key}: is missing")
        return self.members[key]

    def list(self, key):
        value = self.get(key)
        if not isinstance(value, list):
            raise Refused(f"the line: {key}: is not a list")
        return value

    def integer(self, key, least, most):
        number = self.get(key)
        if not is_whole(number):
            raise Refused(f"the line: {key}: is not a whole number")
        return int(self._within(key, number, least, most))

    def number(self, key, least, most):
        number = self.get(key)
        if type(number) not in (int, float):
            raise Refused(f"the line: {key}: is not a number")
        return float(self._within(key, number, least, most))

    @staticmethod
    def _within(key, number, least, most):
        if not least <= number <= most:
            raise Refused(f"the line: {key}: {_text(number)} is not between {_text(least)} and {_text(most)}")
        return number


def is_whole(number):
    """Whether a value of JSON is a whole number, which may be written as 1.0."""
    return type(number) is int or type(number) is float and number.is_integer()


def whole_numbers(values, otherwise):
    """The values of a JSON list as numbers below 2^64. Raises Refused with the reason `otherwise` if one
    is none."""
    if any(not is_whole(value) for value in values) or values and not 0 <= min(values) <= max(values) < 1 << 64:
        raise Refused(otherwise)
    return list(map(int, values))


def _text(number):
    return str(number) if type(number) is int else number_text(number)


def _no_constant(name):
    raise ValueError(f"{name} is not a number of JSON")
