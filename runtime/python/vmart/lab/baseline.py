"""Each policy beside `static`, which places memory at its first use and never moves it: what moving is
worth, and how often it does harm."""

import math

from vmart.lab.spread import mean_and_half

BASELINE = "static"
WORSE = 1.01  # Over the cost of `static`: more than that is worse, and not only different.


def ratios_of(standings, policy):
    """Cost of `policy` over that of `static`, seed by seed, as a dict. Left out are seeds that only
    one of them has, and those in which one of them lost accesses: then their work differs."""
    cells = standings.cells[standings.cells["accesses_lost"].fillna(0) == 0]
    costs = {name: group.set_index("seed")["cost_s"].dropna() for name, group in cells.groupby("policy")}
    if policy not in costs or BASELINE not in costs:
        return {}
    base = costs[BASELINE]
    return {seed: cost / base[seed] for seed, cost in costs[policy].items()
            if seed in base.index and base[seed] > 0}


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
        self.worse = sum(ratio > WORSE for ratio in self.ratios)
        self.worst, self.worst_in = math.nan, ""
        for each, ratios in found:
            if not self.worst >= max(ratios.values()):
                self.worst, self.worst_in = max(ratios.values()), each.title
        # Each scenario counts once, however many seeds it has.
        means = [mean_and_half(ratios.values())[0] for _, ratios in found]
        self.mean = math.exp(math.fsum(map(math.log, means)) / len(means)) if means and min(means) > 0 else math.nan


def all_against(all_standings):
    """An `Against` for each policy but `static`, the lowest mean first."""
    policies = dict.fromkeys(policy for each in all_standings for policy in each.rows["policy"])
    found = [Against(policy, all_standings) for policy in policies if policy != BASELINE]
    return sorted(found, key=lambda each: (math.isnan(each.mean), each.mean))
