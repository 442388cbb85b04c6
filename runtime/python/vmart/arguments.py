"""Checks of what callers pass: each refusal names the argument, its value, and what it may be."""

from __future__ import annotations

import difflib
import math
import numbers
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from vmart.errors import InvalidArgument

__all__ = ["choice", "flag", "integer", "options", "seconds", "size", "text"]

# As in environment variables: binary, with or without "iB".
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)
_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_MOST = (1 << 63) - 1


def _refuse(call: str, name: str, value: Any, expected: str) -> TypeError:
    return TypeError(f"{call}: {name} is {value!r}, a {type(value).__name__}; it may be {expected}")


def size(value: Any, name: str, call: str, *, least: int = 0) -> int:
    """A number of bytes: an integer, or a text such as "20GiB", "64 MiB", "1.5G" or "4096"."""
    if isinstance(value, str):
        match = _SIZE.fullmatch(value)
        if match is None:
            raise InvalidArgument(
                f'{call}: {name} is "{value}"; write a number of bytes, or one with a unit such as '
                '"64MiB" or "20GiB"',
                call,
            )
        exact = float(match[1]) * (1 << _SHIFTS[match[2].lower()]) if "." in match[1] else None
        nbytes = int(exact) if exact is not None else int(match[1]) << _SHIFTS[match[2].lower()]
        if exact is not None and exact != nbytes:
            raise InvalidArgument(f'{call}: {name} is "{value}", which is no whole number of bytes', call)
    else:
        nbytes = _index(value, name, call, 'an int, or a text such as "64MiB"')
    return _between(nbytes, name, call, least, _MOST, "bytes")


def integer(value: Any, name: str, call: str, least: int = 0, most: int = _MOST) -> int:
    return _between(_index(value, name, call, "an int"), name, call, least, most, "")


def _index(value: Any, name: str, call: str, expected: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise _refuse(call, name, value, expected) from None


def _between(value: int, name: str, call: str, least: int, most: int, unit: str) -> int:
    if least <= value <= most:
        return value
    limit = f"at least {least}" if value < least else f"at most {most}"
    raise InvalidArgument(f"{call}: {name} is {value}; it may be {limit}{unit and ' ' + unit}", call)


def seconds(value: Any, name: str, call: str) -> float:
    """A time, as everywhere in Python."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise _refuse(call, name, value, "a number of seconds")
    time = float(value)
    if not math.isfinite(time) or time < 0 or time > 365 * 86_400:
        raise InvalidArgument(f"{call}: {name} is {value} s; it may be from 0 s to a year", call)
    return time


def flag(value: Any, name: str, call: str) -> bool:
    if not isinstance(value, (bool, int)):
        raise _refuse(call, name, value, "True or False")
    return bool(value)


def text(value: Any, name: str, call: str) -> str:
    if not isinstance(value, str):
        raise _refuse(call, name, value, "a str")
    return value


def choice(value: Any, name: str, call: str, among: tuple[str, ...]) -> str:
    if value in among:
        return value
    listed = " or ".join(f'"{each}"' for each in among) if len(among) < 3 else _listed(among)
    shown = f'"{value}"' if isinstance(value, str) else repr(value)
    raise InvalidArgument(f"{call}: {name} is {shown}; it may be {listed}", call)


def _listed(among: tuple[str, ...]) -> str:
    quoted = [f'"{each}"' for each in among]
    return ", ".join(quoted[:-1]) + " or " + quoted[-1]


def options(
    given: Mapping[str, Any], known: Mapping[str, Callable[[Any, str, str], Any]], call: str
) -> dict[str, Any]:
    """What was given, checked by the checks of the options that are known; None stands for the default.
    Raises `TypeError` for an unknown one, as Python does."""
    checked = {}
    for name, value in given.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            raise TypeError(
                f"{call}() has no option '{name}'"
                + (f"; did you mean '{near[0]}'? " if near else ". ")
                + f"Its options: {', '.join(sorted(known))}"
            )
        if value is not None:
            checked[name] = known[name](value, name, call)
    return checked
