"""Time lines short enough to draw: neighbours are put together, and nothing is left out of the sums."""

import numpy

POINTS_MAX = 400


def group_length(count, points_max=POINTS_MAX):
    """How many of `count` neighbours make one point, so that there are at most `points_max`."""
    return max(1, -(-count // points_max))


def summed(values, length):
    """Sums of each `length` neighbours: for what flows, such as bytes moved in a window."""
    values = numpy.asarray(values, dtype=float)
    return numpy.add.reduceat(values, numpy.arange(0, len(values), length)) if len(values) else values


def last_of(values, length):
    """The last of each `length` neighbours: for what stands, such as bytes at a window's end."""
    values = numpy.asarray(values, dtype=float)
    ends = numpy.minimum(numpy.arange(length, len(values) + length, length), len(values)) - 1
    return values[ends]


def ratio_of(above, below, length):
    """Of each `length` neighbours the sum of `above` over that of `below`; NaN over nothing."""
    sums, parts = summed(above, length), summed(below, length)
    return numpy.divide(sums, parts, out=numpy.full(len(sums), numpy.nan), where=parts > 0)
