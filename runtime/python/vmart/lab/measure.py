"""The measure of a cell, by which policies are ranked: the makespan of a closed loop, and the cost of an open
one, whose makespan no policy can change. Its value is `time_s`."""

MAKESPAN, COST = "seconds", "cost_s"
OF_OPEN_BOUNDS = "access_move_s"  # What the bound of an open loop limits.
TIGHT = 0.1  # A bound is shown to be tight if something that is known is no farther above it, as a share.


def measure_of(closed_loop):
    return MAKESPAN if closed_loop else COST


def measure_in(cell, metrics, bound):
    """That of a cell's file. An older one does not name it: only closed loops have such a bound, or requests."""
    if cell.get("measure") in (MAKESPAN, COST):
        return cell["measure"]
    return measure_of((bound or {}).get("metric") == MAKESPAN or bool(metrics.get("requests")))


def bounded(metrics, bound):
    """The metric that the bound limits; None if there is none."""
    return metrics.get((bound or {}).get("metric", OF_OPEN_BOUNDS))


def over_plan(bounded_s, plan_s, regret):
    """What the bound limits over that of the best plan that its search knows; None where the cell has no regret or no
    plan."""
    return None if regret is None or bounded_s is None or not plan_s else bounded_s / plan_s


def is_tight(kind, gap, regrets):
    """Whether a bound was shown to be tight: it is exact, or the best plan or policy that is known is near. `gap` is that
    of the plan; it and the `regrets` of policies may be missing, None or NaN."""
    known = [each for each in (gap, *regrets) if each is not None]
    return kind == "exact" or any(each <= TIGHT for each in known)
