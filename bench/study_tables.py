"""The tables of docs/results/study.md, made of a `study_cells.Study` and of the experiment's file."""

import statistics

import figures
from study_cells import geometric_mean

DEFAULT = "harvest"
NEAR = 1.05  # As good as the cheapest.
ALIKE = 1.01  # Named beside the best.


def times(value):
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:.3g}"


def percent(value):
    if value is None:
        return "-"
    return f"{100 * value:.{1 if value < 10 else 0}f} %"


def mean(values):
    values = [value for value in values if value is not None]
    return statistics.fmean(values) if values else None


def fair(scenarios):
    return [each for each in scenarios if each.fair]


def over_cheapest(scenarios, policy):
    """Of each scenario that has the policy."""
    found = [each.over_cheapest(policy) for each in scenarios]
    return [value for value in found if value is not None]


def order(study, scenarios):
    """The policies, cheapest first by the geometric mean of cost over the cheapest; whoever has
    none comes last."""
    means = {policy: geometric_mean(over_cheapest(scenarios, policy)) for policy in study.policies}
    return sorted(study.policies, key=lambda policy: (means[policy] is None, means[policy] or 0))


def plural(count, what):
    return f"{count} {what}{'' if count == 1 else 's'}"


def left_out(scenarios):
    """A sentence for those in which a policy lost accesses, so that not all did the same work."""
    names = [f"{each.trace} on {each.machine}" for each in scenarios if not each.fair]
    if not names:
        return ""
    return f"\n\nLeft out of it, since a policy lost accesses there: {', '.join(names)}."


def cells_of(asked):
    return len(asked["machines"]) * len(asked["traces"]) * len(asked["policies"])


def how_many(study, asked):
    """What of the experiment is here."""
    cells = cells_of(asked)
    text = (f"{study.made}. {plural(len(study.machines), 'machine')}, {plural(len(study.traces), 'trace')}, "
            f"{len(study.policies)} policies: {plural(len(study.cells), 'cell')}")
    return text + ("." if len(study.cells) == cells else f" of the {cells} of the experiment.")


def overall(study, _):
    sound = fair(study.scenarios)
    headers = ["policy", *study.machines, "all", "worst", "cheapest", "within 5 %"]
    rows = []
    for policy in order(study, sound):
        every = over_cheapest(sound, policy)
        by_machine = [geometric_mean(over_cheapest(fair(study.of_machine(machine)), policy))
                      for machine in study.machines]
        rows.append([f"**{policy}**" if policy == DEFAULT else policy, *map(times, by_machine),
                     times(geometric_mean(every)), times(max(every, default=None)),
                     sum(each.cheapest.policy == policy for each in sound),
                     f"{sum(value <= NEAR for value in every)} of {len(every)}"])
    return figures.table(headers, rows) + left_out(study.scenarios)


def policy_row(scenarios, policy):
    near = over_cheapest(scenarios, policy)
    cells = [each.cells[policy] for each in scenarios if policy in each.cells]
    ratios = {cell.trace: cell.over_bound for cell in cells if cell.over_bound is not None}
    worst = max(ratios, key=ratios.get) if ratios else None
    return [f"**{policy}**" if policy == DEFAULT else policy,
            times(geometric_mean(near)), times(geometric_mean(ratios.values())),
            percent(statistics.median(ratios.values()) - 1) if ratios else "-",
            f"{percent(ratios[worst] - 1)} ({worst})" if ratios else "-",
            f"{sum(value <= NEAR for value in near)} of {len(near)}",
            percent(mean(cell.moved for cell in cells)), percent(mean(cell.stall for cell in cells))]


def policies(study, _):
    """A table a machine."""
    headers = ["policy", "cost / cheapest", "cost / bound", "median regret", "worst regret",
               "within 5 %", "moved / accessed", "stalled"]
    parts = []
    for machine in study.machines:
        scenarios = fair(study.of_machine(machine))
        rows = [policy_row(scenarios, policy) for policy in order(study, scenarios)]
        parts.append(f"### Policies on {machine}\n\n" + figures.table(headers, rows)
                     + left_out(study.of_machine(machine)))
    return "\n\n".join(parts)


def best_of(scenario):
    """The cheapest policy, and how many more cost nearly the same."""
    if scenario.cheapest is None:
        return "-"
    alike = sum((scenario.over_cheapest(policy) or 9) <= ALIKE for policy in scenario.cells) - 1
    return scenario.cheapest.policy + (f" and {alike} more" if alike else "")


def trace_row(scenario):
    some = next(iter(scenario.cells.values()))
    default = scenario.cells.get(DEFAULT)
    behind = scenario.over_cheapest(DEFAULT)
    plan = some.plan_s and some.lower_bound_s and some.plan_s / some.lower_bound_s
    lost = sum(bool(cell.lost) for cell in scenario.cells.values())
    return [scenario.trace, "-" if some.hbm_gib is None else f"{some.hbm_gib:.3g} GiB",
            times(plan or None), best_of(scenario),
            times(scenario.cheapest and scenario.cheapest.over_bound),
            times(default and default.over_bound), times(behind),
            f"{lost} of {len(scenario.cells)}" if lost else ""]


def traces(study, _):
    """A table a machine."""
    headers = ["trace", "HBM a GPU", "plan / bound", "cheapest policy", "its cost / bound",
               f"{DEFAULT} / bound", f"{DEFAULT} / cheapest", "lost accesses"]
    return "\n\n".join(f"### Traces on {machine}\n\n"
                       + figures.table(headers, map(trace_row, study.of_machine(machine)))
                       for machine in study.machines)


TABLES = {"made": how_many, "overall": overall, "policies": policies, "traces": traces}
