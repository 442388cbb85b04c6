"""The policies of one scenario, in order of their time, and which of them are the best."""

import statistics

from vmart.lab.measure import MAKESPAN
from vmart.lab.spread import ratio_interval

SCENARIO = ["machine", "trace", "router"]
SEEDS_LEAST = 5  # Of fewer, an interval says too little to mark a policy.
NEAR = 1.05      # Over the lowest time: what is farther away is not the best, whatever seeds can tell.


class Standings:
    """One machine, trace and router: rows of `Results.summary`, the lowest time first.

    A policy that lost accesses has done less, so it stands after all others and is nowhere best.
    """

    def __init__(self, key, summary, cells):
        self.machine, self.trace, self.router = key
        self.cells = cells
        self.kind = cells["kind"].iloc[0]
        self.measure = cells["measure"].iloc[0]
        frame = summary.assign(lossy=summary["accesses_lost_mean"].fillna(0) > 0)
        self.rows = frame.sort_values(["lossy", "time_s_mean"], kind="stable")

    @property
    def title(self):
        return f"{self.trace} on {self.machine}, router {self.router}"

    @property
    def time_name(self):
        return "makespan" if self.measure == MAKESPAN else "cost"

    @property
    def bound_kinds(self):
        return ", ".join(sorted(set(self.rows["bound_kind"].dropna())))

    @property
    def bounds(self):
        """What no policy's time is below, by seed; nothing of open loops, where the bound limits less than the cost."""
        bounds = self.cells.drop_duplicates("seed").set_index("seed")["lower_bound_s"].dropna()
        return dict(bounds) if self.measure == MAKESPAN else {}

    @property
    def bound_s(self):
        """The mean of `bounds`; 0 where a seed has none."""
        return statistics.fmean(self.bounds.values()) if len(self.bounds) == self.seeds else 0.0

    @property
    def seeds(self):
        return self.cells["seed"].nunique()

    @property
    def seeds_are_few(self):
        return self.seeds < SEEDS_LEAST

    def best(self):
        """Policies with the lowest mean time, and those near it that the seeds cannot tell from it: the 95 %
        interval of the ratio, seed by seed, reaches 1. None if `seeds_are_few`."""
        rows = self.rows[~self.rows["lossy"]]
        full = rows[rows["time_s_count"] == rows["seeds"]]
        if self.seeds_are_few or len(full) < 2 or not (full["time_s_mean"] > 0).all():
            return set()
        by_policy = self.cells.pivot_table(index="seed", columns="policy", values="time_s")
        lowest = full.loc[full["time_s_mean"].idxmin(), "policy"]
        found = {policy for policy in full["policy"] if is_near(by_policy[policy] / by_policy[lowest])}
        return found if len(found) < len(rows) else set()


def is_near(ratios):
    mean, low, _ = ratio_interval(ratios)
    return mean <= NEAR and low <= 1


def all_standings(results):
    """One `Standings` a machine, trace and router, in the order of the experiment."""
    if len(results.cells) == 0:
        return []
    cells = dict(list(results.distinct.groupby(SCENARIO, sort=False)))
    return [Standings(key, summary, cells[key])
            for key, summary in results.summary.groupby(SCENARIO, sort=False)]
