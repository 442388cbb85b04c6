"""Numbers as people read them: one unit a column, as many digits as say something."""

import math

# What a column is measured in: units from large to small, with what one of each is worth.
UNITS = {
    "bytes": (("TiB", 2.0**40), ("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 1024.0), ("B", 1.0)),
    "seconds": (("s", 1.0), ("ms", 1e-3), ("\u00b5s", 1e-6)),
    "share": (("%", 0.01),),
    "count": (("", 1.0),),
    "times": (("\u00d7", 1.0),),
}


def unit_for(kind, values):
    """Name and worth of the largest unit of `kind` in which the largest of `values` is at least 1."""
    largest = max((abs(value) for value in values if not math.isnan(value)), default=0.0)
    for name, worth in UNITS[kind]:
        if largest >= worth:
            return name, worth
    if largest == 0:
        return UNITS[kind][1 if kind == "bytes" else 0]
    return UNITS[kind][-1]


def number(value, whole=False):
    """`value` with four digits, or as few as it needs if it is a `whole` one; a dash for NaN."""
    if math.isnan(value):
        return "\u2013"
    if value == 0:
        return "0"
    decimals = 3 - math.floor(math.log10(abs(value)))
    if decimals > 9:
        return f"{value:.3g}"
    if whole and float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.{max(0, decimals)}f}"


def half_width(value):
    """A half width with two digits."""
    if value == 0:
        return "0"
    decimals = 1 - math.floor(math.log10(abs(value)))
    return f"{value:.2g}" if decimals > 9 else f"{value:,.{max(0, decimals)}f}"
