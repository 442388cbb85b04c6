"""The tables of docs/results/study.md, made of a `study_cells.Study`. Real and generated traces are in tables of
their own, and every figure of a policy stands beside `static`."""

import statistics

from harness.samples import table
from study_cells import BASE, DIFFERENT, geometric_mean, is_test

WORSE = DIFFERENT  # Over the base: from here on a policy counts as worse, and from its inverse down as better.
WHOLE, POLICIES, GENERATED, MACHINES = "study_whole", "study", "study_generated", "study_machines"


def times(value):
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:.3g}"


def percent(value):
    return "-" if value is None else f"{100 * value:.{1 if value < 0.1 else 0}f} %"


def mean(values):
    values = [value for value in values if value is not None]
    return statistics.fmean(values) if values else None


def order(experiment):
    """The policies, fastest first by the geometric mean of time over the base's; whoever has none comes last."""
    means = {policy: geometric_mean(experiment.ratios(policy)) for policy in experiment.policies}
    return sorted(experiment.policies, key=lambda policy: (means[policy] is None, means[policy] or 0))


def how_many(experiment):
    """What of the experiment is there, and of what commit."""
    parts = [(experiment.machines, "machine"), (experiment.traces, "trace"), (experiment.policies, "policy"),
             (set(cell.seed for cell in experiment.cells), "seed"), (experiment.cells, "cell")]
    plural = {"policy": "policies"}
    text = ", ".join(f"{len(part)} {what if len(part) == 1 else plural.get(what, what + 's')}"
                     for part, what in parts)
    lost = sum(bool(cell.lost) for cell in experiment.cells)
    return f"{experiment.made}: {text}." + (f" {lost} cells lost accesses and are left out." if lost else "")


def made(study):
    return "\n".join(f"- {how_many(each)}" for each in study.experiments.values())


def worse_and_worst(experiment, policy, wanted):
    """In how many of the live cells it is worse: in others no policy is better or worse. The worst is of all."""
    ratios = experiment.ratios(policy, wanted=wanted)
    live = experiment.ratios(policy, wanted=lambda cell: wanted(cell) and experiment.is_live(cell))
    return [f"{sum(ratio > WORSE for ratio in live)} of {len(live)}" if ratios else "-",
            times(max(ratios, default=None))]


def over_bound(experiment, policy, memory):
    """Median of the test set."""
    found = [cell.over_bound for cell in experiment.cells
             if cell.policy == policy and cell.kind == "real" and is_test(cell.trace) and not cell.lost
             and cell.machine.endswith(memory) and cell.over_bound is not None]
    return times(statistics.median(found) if found else None)


def policy_row(experiment, policy):
    ratios = experiment.ratios(policy, wanted=lambda cell: cell.kind == "real")
    cells = [cell for cell in experiment.cells if cell.policy == policy and cell.kind == "real"]
    return [f"`{policy}`", times(geometric_mean(ratios)),
            *worse_and_worst(experiment, policy, lambda cell: cell.kind == "real" and not is_test(cell.trace)),
            *worse_and_worst(experiment, policy, lambda cell: cell.kind == "real" and is_test(cell.trace)), sum(ratio < 1 / WORSE for ratio in ratios),
            over_bound(experiment, policy, "half"), over_bound(experiment, policy, "ample"),
            percent(mean(cell.moved for cell in cells)), percent(mean(cell.stalled for cell in cells))]


REAL_HEAD = ["policy", f"time over `{BASE}`, mean", "tuned: worse of live", "worst", "test: worse of live", "worst", "better",
             "over the bound: half", "ample", "moved", "stalled"]


def real_policies(experiment):
    """A row a policy, over real traces alone."""
    return table(REAL_HEAD, [policy_row(experiment, policy) for policy in order(experiment)])


def spread(ratios):
    """The mean, and the least and the most if there are several seeds."""
    if not ratios:
        return "-"
    text = times(geometric_mean(ratios))
    return text if len(ratios) == 1 else f"{text} ({times(min(ratios))}-{times(max(ratios))})"


def cells_of(experiment, chosen):
    """A row for each machine and trace: the base's time, and each chosen policy's over it."""
    rows = []
    for machine in experiment.machines:
        for trace in experiment.traces:
            base = experiment.base(machine, trace)
            if base is None:
                continue
            of = "generated" if base.kind != "real" else "test" if is_test(trace) else "tuned"
            rows.append([machine, trace, of, base.loop, "lost" if base.lost else f"{base.time_s:.5g}",
                         times(base.over_bound),
                         *(spread(experiment.ratios(policy, machine, trace)) for policy in chosen)])
    head = ["machine", "trace", "set", "loop", f"`{BASE}`, s", "over its bound",
            *(f"`{policy}`" for policy in chosen)]
    return table(head, rows)


def all_but_base(experiment):
    return [policy for policy in order(experiment) if policy != BASE]


def generated(experiment):
    """A row a policy, a column a trace, a table a machine: mean over seeds, least and most."""
    parts = []
    for machine in experiment.machines:
        rows = [[f"`{policy}`", *(spread(experiment.ratios(policy, machine, trace)) for trace in experiment.traces)]
                for policy in order(experiment)]
        parts.append(f"### {machine}\n\n" + table(["policy", *experiment.traces], rows))
    return "\n\n".join(parts)


def disk(experiment):
    """Of bench/experiments/blocks.json. `two_touch` does as `counter`."""
    chosen = ("auto", "cost_benefit", "counter")
    rows = [[machine, trace, f"{experiment.base(machine, trace).time_s:.4g}",
             *(spread(experiment.ratios(policy, machine, trace)) for policy in chosen)]
            for machine in experiment.machines for trace in experiment.traces]
    return table(["machine", "trace", f"`{BASE}`, s", "`auto`", "`cost_benefit`", "`counter`, `two_touch`"], rows)


def table_of(name, draw):
    return lambda study: draw(study.experiments[name])


TABLES = {
    "made": made,
    "whole_policies": table_of(WHOLE, real_policies),
    "whole_cells": table_of(WHOLE, lambda each: cells_of(each, all_but_base(each))),
    "machines_policies": table_of(MACHINES, real_policies),
    "machines_cells": table_of(MACHINES, lambda each: cells_of(each, all_but_base(each))),
    "policies": table_of(POLICIES, real_policies),
    "cells": table_of(POLICIES, lambda each: cells_of(each, all_but_base(each)[:5])),
    "generated": table_of(GENERATED, generated),
}
