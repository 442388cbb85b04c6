"""What did not go well in an experiment, as HTML."""

import math

from vmart.lab.cell_file import read_json
from vmart.lab.kinds import BASELINE, is_drawn
from vmart.lab.tables import escaped, plain_table

# Metric, what one of it is. Cells that have any are named.
LOSSES = (("accesses_lost", "accesses lost"), ("allocations_lost", "allocations lost"),
          ("policy_failures", "policy failures"))


def policies_count(entry):
    """How many policies an entry of the experiment's list is: one for each combination of a sweep."""
    sweep = entry.get("sweep", {}) if isinstance(entry, dict) else {}
    return math.prod(len(values) for values in sweep.values())


def is_added(experiment):
    """Whether the policy that is beside all others is not in the experiment's list."""
    named = [entry.get("policy") if isinstance(entry, dict) else entry for entry in experiment["policies"]]
    return experiment.get("static", True) and BASELINE not in named


def cells_count(experiment):
    """How many cells the experiment has; None where its file says that in no way known here."""
    try:
        seeds = len(experiment.get("seeds", [1]))
        # What does not depend on the seed has cells of one.
        traces = sum(seeds if is_drawn(trace) else 1 for trace in experiment["traces"])
        policies = sum(map(policies_count, experiment["policies"]))
        policies += is_added(experiment)
        return (len(experiment["machines"]) * traces * policies
                * len(experiment.get("routers", ["prefix"])))
    except (AttributeError, KeyError, TypeError):
        return None


def missing_cells(results):
    """Machine, trace, router, seed and policy of what did not finish, as far as the finished cells
    tell: a policy that finished somewhere is missed wherever it did not."""
    cells = results.cells
    if len(cells) == 0:
        return []
    groups = cells.groupby(["machine", "trace", "router", "seed"], sort=False)["policy"]
    policies = list(dict.fromkeys(cells["policy"]))
    return [[*map(str, key), policy] for key, found in groups
            for policy in policies if policy not in set(found)]


def losing_cells(results):
    """Rows of `results.cells` that lost something."""
    cells = results.cells
    names = [name for name, _ in LOSSES if name in cells.columns]
    return cells[(cells[names] > 0).any(axis=1)] if len(cells) else cells


def unfinished_count(results):
    expected = cells_count(results.experiment)
    return max(len(results.unfinished), (expected or 0) - len(results.ids))


def status_line(results):
    """One line for the top of the page."""
    losing, unfinished = len(losing_cells(results)), unfinished_count(results)
    parts = [f"{len(results.ids)} cells finished"]
    if unfinished:
        parts.append(f"{unfinished} did not")
    parts.append(f"{losing} lost something" if losing else "none lost anything")
    kind = "status failed" if losing or unfinished else "status"
    return f'<p class="{kind}">{", ".join(parts)}. <a href="#failed">What failed</a></p>'


def unfinished_part(results):
    if unfinished_count(results) == 0:
        return ""
    missing = missing_cells(results)
    table = plain_table("failed", ["machine", "trace", "router", "seed", "policy"], missing) if missing else ""
    return (f"<h3>Cells that did not finish</h3><p>{unfinished_count(results)} have no result. Another "
            f"<code>vmart-lab run</code> into this folder tries them again, and says why they fail.</p>{table}")


def missing_bounds(results):
    """Id and reason of each bound that was asked for and is not to be had."""
    documents = (read_json(path) for path in sorted((results.folder / "bounds").glob("*.json")))
    found = [(document.get("inputs"), document.get("reason")) for document in documents]
    return [[str(inputs.get("id")) if isinstance(inputs, dict) else "", str(reason)]
            for inputs, reason in found if reason is not None]


def failed_section(results):
    parts = [unfinished_part(results)]
    if reasons := missing_bounds(results):
        parts.append("<h3>Bounds that could not be found</h3>"
                     + plain_table("failed", ["bound", "reason"], reasons))
    losing = losing_cells(results)
    if len(losing):
        names = [(name, text) for name, text in LOSSES if name in losing.columns]
        rows = [[row["id"], *(row[name] for name, _ in names)] for _, row in losing.iterrows()]
        parts.append("<h3>Cells that lost something</h3>"
                     + plain_table("failed", ["cell", *(text for _, text in names)], rows))
    if results.experiment.get("bounds") and len(results.cells):
        bare = results.cells[results.cells["regret"].isna()].index.difference(losing.index)
        if len(bare):
            parts.append("<h3>Other cells without regret, though bounds were asked for</h3>"
                         + plain_table("failed", ["cell"], [[results.cells["id"][index]] for index in bare]))
    return "".join(parts) or f"<p>Nothing: {escaped(len(results.ids))} cells finished.</p>"
