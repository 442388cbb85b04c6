"""Parameters of importers: assumptions about what a file lacks, which a user can override. All are
numbers; the end of the name gives the unit."""

import re
from typing import NamedTuple

NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.ASCII | re.IGNORECASE)


class Parameter(NamedTuple):
    name: str
    otherwise: float
    least: float
    most: float
    meaning: str
    whole: bool = True  # No fractions.

    def value(self, text):
        """The number that `text` gives. Raises ValueError."""
        number = float(text) if NUMBER.fullmatch(text) else None
        if number is None or not self.least <= number <= self.most or self.whole and number != int(number):
            kind = "whole number" if self.whole else "number"
            raise ValueError(f'{self.name}: "{text}" is not a {kind} from {number_text(self.least)} to '
                             f"{number_text(self.most)}")
        return int(number) if self.whole else number


CLOSED = Parameter("closed", 1, 0, 1, "1: tasks wait for each other; 0: open loop, accesses at fixed times")
HINTS = Parameter("hints", 0, 0, 1,
                  "closed loops: 1: programs announce what they know of their coming uses")


def values_of(parameters, given):
    """The value of each parameter by name; `given` is a list of "name=value", the rest keep their
    defaults. Raises ValueError that names the fault and lists the parameters."""
    known = {one.name: one for one in parameters}
    values = {one.name: one.otherwise for one in parameters}
    try:
        for text in given:
            name, _, value = text.partition("=")
            if name not in known:
                raise ValueError(f'"{name}" is not a parameter')
            values[name] = known[name].value(value)
    except ValueError as error:
        raise ValueError(f"{error}; the parameters are\n{described(parameters)}") from None
    return values


def values_text(values):
    """ "name=value" for each, in alphabetical order, for the header of the output."""
    return " ".join(f"{name}={number_text(values[name])}" for name in sorted(values))


def described(parameters):
    """One line per parameter."""
    return "".join(f"  {one.name}: {number_text(one.otherwise)}, from {number_text(one.least)} to "
                   f"{number_text(one.most)}: {one.meaning}\n" for one in parameters)


def number_text(number):
    """The shortest text of the same number, without a fraction of zero: 300, 0.5, 1e+16."""
    return repr(float(number)).removesuffix(".0")
