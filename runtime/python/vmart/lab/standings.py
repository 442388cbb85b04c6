"""The policies of one scenario, in order of cost, and which of them are the best."""

from vmart.lab.spread import mean_and_half

SCENARIO = ["machine", "trace", "router"]
# Lower is better. Not marked where it costs nothing to be best: who moves nothing stalls nothing.
MARKED = ("cost_s", "regret", "slowdown", "rest_s")


class Standings:
    """One machine, trace and router: rows of `Results.summary`, cheapest first.

    A policy that lost accesses has done less, so it stands after all others and is nowhere best.
    """

    def __init__(self, key, summary, cells):
        self.machine, self.trace, self.router = key
        self.cells = cells
        self.kind = cells["kind"].iloc[0]
        frame = summary.assign(lossy=summary["accesses_lost_mean"].fillna(0) > 0)
        self.rows = frame.sort_values(["lossy", "cost_s_mean"], kind="stable")

    @property
    def title(self):
        return f"{self.trace} on {self.machine}, router {self.router}"

    @property
    def bound_kinds(self):
        return ", ".join(sorted(set(self.rows["bound_kind"].dropna())))

    @property
    def seeds_are_few(self):
        """One seed of a trace that is drawn: the next one may have another order."""
        return self.kind == "synthetic" and self.cells["seed"].nunique() < 2

    def best(self, metric):
        """Policies with the lowest mean of `metric`, and those that the seeds cannot tell from it:
        the 95 % interval of the difference, seed by seed, reaches zero. None if `seeds_are_few`."""
        if self.seeds_are_few:
            return set()
        rows = self.rows[~self.rows["lossy"]]
        full = rows[rows[f"{metric}_count"] == rows["seeds"]]
        if len(full) < 2:
            return set()
        by_policy = self.cells.pivot_table(index="seed", columns="policy", values=metric)
        lowest = full.loc[full[f"{metric}_mean"].idxmin(), "policy"]
        found = {policy for policy in full["policy"]
                 if not told_apart(by_policy[policy] - by_policy[lowest])}
        return found if len(found) < len(rows) else set()


def told_apart(differences):
    mean, half = mean_and_half(differences)
    return mean > (half if half == half else 0.0)  # What is not drawn has one seed, and no half width.


def all_standings(results):
    """One `Standings` a machine, trace and router, in the order of the experiment."""
    if len(results.cells) == 0:
        return []
    cells = dict(list(results.cells.groupby(SCENARIO, sort=False)))
    return [Standings(key, summary, cells[key])
            for key, summary in results.summary.groupby(SCENARIO, sort=False)]
