"""Each policy beside `static`, which places memory at its first use and never moves it: what moving is
worth, and how often it does harm."""

import math

from vmart.lab.kinds import BASELINE
from vmart.lab.spread import geometric_mean, ratio_interval

WORSE = 1.01  # Over the time of `static`: more than that is worse, and not only different.


def times_by_policy(standings):
    """`time_s` by seed, by policy. Left out are cells that lost accesses: their work differs."""
    cells = standings.cells[standings.cells["accesses_lost"].fillna(0) == 0]
    return {policy: group.set_index("seed")["time_s"].dropna() for policy, group in cells.groupby("policy", sort=False)}


def over(times, base):
    """Ratios by seed, of the seeds that both have."""
    return {seed: time / base[seed] for seed, time in times.items()
            if seed in base.index and base[seed] > 0 and time > 0}


def ratios_of(standings, policy):
    """Time of `policy` over that of `static`, seed by seed, as a dict."""
    times = times_by_policy(standings)
    return over(times[policy], times[BASELINE]) if policy in times and BASELINE in times else {}


def times_of(standings, policy):
    """`time_s` of `policy` by seed, as a dict, those that are above 0."""
    times = times_by_policy(standings)
    return {seed: time for seed, time in times[policy].items() if time > 0} if policy in times else {}


def interval(standings, numbers, base):
    """Geometric mean of a policy's times by seed, or of their ratios to those of `base`, and the ends of its 95 %
    interval: the lower one is no lower than what the bound allows in these seeds."""
    mean, low, high = ratio_interval(numbers.values())
    bounds = standings.bounds
    least = [bounds.get(seed, 0.0) / (base[seed] if base else 1.0) for seed in numbers]
    return mean, max(low, geometric_mean(least)) if all(each > 0 for each in least) else low, high


def live_seeds(standings):
    """The seeds in which placement matters at all: policies differ by more than 1 %, from `static` where that is
    one of them."""
    times = times_by_policy(standings)
    live = set()
    for base in ([times[BASELINE]] if BASELINE in times else times.values()):
        for others in times.values():
            live |= {seed for seed, ratio in over(others, base).items() if max(ratio, 1 / ratio) > WORSE}
    return live


def has_baseline(all_standings):
    return any(BASELINE in set(each.rows["policy"]) for each in all_standings)


class Against:
    """One policy against `static` in the cells of several scenarios."""

    def __init__(self, policy, all_standings):
        self.policy = policy
        self.scenarios = len(all_standings)
        found = [(each, ratios_of(each, policy)) for each in all_standings]
        found = [(each, ratios) for each, ratios in found if ratios]
        self.compared = len(found)
        self.ratios = [ratio for _, ratios in found for ratio in ratios.values()]
        self.live = sum(len(live_seeds(each) & ratios.keys()) for each, ratios in found)
        self.worse = sum(ratio > WORSE for ratio in self.ratios)
        self.worst, self.worst_in = math.nan, ""
        for each, ratios in found:
            if not self.worst >= max(ratios.values()):
                self.worst, self.worst_in = max(ratios.values()), each.title
        # Each scenario counts once, however many seeds it has.
        means = [ratio_interval(ratios.values())[0] for _, ratios in found]
        self.mean = geometric_mean(means) if means else math.nan


def all_against(all_standings):
    """An `Against` for each policy but `static`, the lowest mean first."""
    policies = dict.fromkeys(policy for each in all_standings for policy in each.rows["policy"])
    found = [Against(policy, all_standings) for policy in policies if policy != BASELINE]
    return sorted(found, key=lambda each: (math.isnan(each.mean), each.mean))
