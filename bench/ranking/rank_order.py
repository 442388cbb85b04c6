"""How alike two rankings are: Kendall's tau-b, where values too close to tell apart are ties.

That a pair is a tie is decided for each pair, by the spread of the samples of these two. Ties are then
no equality of values (a may tie with b and b with c, and a not with c), which is why tau-b is counted
here over pairs and not taken from a library that compares values. For values without spread it is what
`scipy.stats.kendalltau` gives.
"""

import itertools
import math
import statistics


class Measured:
    """The samples of one thing: their median, and how far apart they are."""

    def __init__(self, samples):
        self.median = statistics.median(samples)
        self.spread = max(samples) - min(samples)
        # A share of the median, so that it can be held against values of another scale.
        self.share = self.spread / self.median if self.median else 0.0


def order(first, second, tolerance):
    """-1, 1, or 0 for a tie: no further apart than `tolerance`."""
    if abs(first - second) <= tolerance:
        return 0
    return -1 if first < second else 1


def tau_b(orders):
    """Of (order in one ranking, order in the other) of each pair. None where one of them has nothing
    but ties."""
    orders = list(orders)
    agreed = sum(one * other for one, other in orders)
    decided = [sum(1 for pair in orders if pair[side] != 0) for side in (0, 1)]
    if 0 in decided:
        return None
    return agreed / math.sqrt(decided[0] * decided[1])


def compare(measured, foretold):
    """Two dicts of samples by name: those of a machine, and those of a model of it. A pair is a tie

    - of the machine, where its medians are no further apart than the larger spread of the two;
    - of the model, where its values are no further apart than its own spread, or than what that spread
      of the machine's makes of them, as a share.

    `tau_b` is over pairs of which the machine says who is first; where it does not, nobody can be right
    or wrong, and the pair is a tie in both. In `tau_b_own_ties` each has its own ties only, so that a
    model that sees a difference where the machine sees none loses by it.
    """
    names = [name for name in measured if name in foretold]
    machine = {name: Measured(measured[name]) for name in names}
    model = {name: Measured(foretold[name]) for name in names}
    pairs = []
    for first, second in itertools.combinations(names, 2):
        one, other = machine[first], machine[second]
        on_machine = order(one.median, other.median, max(one.spread, other.spread))
        a, b = model[first], model[second]
        share = max(one.share, other.share)
        in_model = order(a.median, b.median,
                         max(a.spread, b.spread, share * max(abs(a.median), abs(b.median))))
        pairs.append({"pair": [first, second], "machine": on_machine, "model": in_model})
    own = [(pair["machine"], pair["model"]) for pair in pairs]
    both = [(one, other if one else 0) for one, other in own]
    return {
        "tau_b": tau_b(both),
        "tau_b_own_ties": tau_b(own),
        "pairs": len(pairs),
        "agree": sum(1 for one, other in own if one * other > 0),
        "disagree": sum(1 for one, other in own if one * other < 0),
        "ties_machine": sum(1 for one, _ in own if one == 0),
        "ties_model": sum(1 for _, other in own if other == 0),
        "wrong": [pair for pair in pairs if pair["machine"] and pair["model"] != pair["machine"]],
    }
