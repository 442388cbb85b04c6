"""The mean of a few numbers, and how far the true one may be from it."""

import math
import statistics

# Two-sided 95 % points of Student's t distribution for 1 to 30 degrees of freedom.
T_POINTS = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)


def t_point(freedom):
    """The number of standard errors on each side that hold the mean 95 times of 100."""
    if freedom < 1:
        raise ValueError("one number says nothing of its spread")
    if freedom <= len(T_POINTS):
        return T_POINTS[freedom - 1]
    # The first two terms of Cornish and Fisher's expansion: good to 4 digits from 31 on.
    z = statistics.NormalDist().inv_cdf(0.975)
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def mean_and_half(values):
    """Mean and 95 % half width of `values`, in their unit, those that are NaN left out.

    The half width is NaN for fewer than two numbers, the mean for none.
    """
    numbers = [float(value) for value in values if not math.isnan(value)]
    if not numbers:
        return math.nan, math.nan
    mean = math.fsum(numbers) / len(numbers)
    if len(numbers) < 2:
        return mean, math.nan
    error = statistics.stdev(numbers) / math.sqrt(len(numbers))
    return mean, t_point(len(numbers) - 1) * error


def geometric_mean(values):
    """Of numbers above 0, at least one."""
    values = list(values)
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def ratio_interval(ratios):
    """Geometric mean of `ratios`, and the ends of its 95 % interval, which are NaN for fewer than two. Their logarithms
    are spread evenly on both sides, and no end is below 0."""
    mean, half = mean_and_half(map(math.log, ratios))
    return tuple(map(math.exp, (mean, mean - half, mean + half)))
