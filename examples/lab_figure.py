#!/usr/bin/env python3
"""Draws the figure that a paper shows of an experiment: accesses and moves over the lower bound by policy, by
trace, with the 95 % half width over seeds, as far as it is above the bound. Bounds that nothing comes near are left out.

    examples/lab_figure.py FOLDER figure.svg [--machine h200x4]

FOLDER is what `vmart-lab run` was given as --out, with bounds. Needs pandas and matplotlib, and exits
with 77 without them; runtime/python has to be installed (pip) or on PYTHONPATH.
"""

import argparse
import sys

from vmart import lab

MISSING = 77
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#666666")
STYLE = {"svg.hashsalt": "vmart", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False,
         "axes.spines.right": False, "axes.axisbelow": True, "legend.frameon": False}


def costs_over_bound(summary, machine):
    """Of each trace and policy: time of accesses and moves over the lower bound, and its half width; both are ratios."""
    rows = summary[(summary["machine"] == machine) & summary["regret_mean"].notna()]
    if rows.empty:
        raise ValueError(f"{machine} has no cell with a lower bound")
    # One number a trace and policy: the router that the experiment names first.
    rows = rows[rows["router"] == rows["router"].iloc[0]]
    means = rows.pivot(index="trace", columns="policy", values="regret_mean") + 1
    halves = rows.pivot(index="trace", columns="policy", values="regret_half")
    order = [list(dict.fromkeys(rows[name])) for name in ("trace", "policy")]
    return (means.reindex(index=order[0], columns=order[1]),
            halves.reindex(index=order[0], columns=order[1]).fillna(0.0))


def draw(means, halves, machine, path):
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot

    traces, policies = list(means.index), list(means.columns)
    width = 0.8 / len(policies)
    with matplotlib.rc_context(STYLE):
        figure, axes = pyplot.subplots(figsize=(max(4.0, 1.2 + 1.4 * len(traces)), 3.0),
                                       layout="constrained")
        for index, policy in enumerate(policies):
            places = [group + (index - (len(policies) - 1) / 2) * width for group in range(len(traces))]
            below = halves[policy].clip(upper=means[policy] - 1)  # No policy is below the bound.
            axes.bar(places, means[policy] - 1, width, bottom=1, yerr=[below, halves[policy]], label=policy,
                     color=COLOURS[index % len(COLOURS)], error_kw={"linewidth": 0.8})
        axes.axhline(1, color="#444444", linewidth=0.8)
        axes.set_xticks(range(len(traces)), traces)
        axes.set_ylabel("time / lower bound")
        axes.set_title(machine, loc="left", fontsize=9)
        axes.grid(axis="y", color="#e4e4e4", linewidth=0.6)
        figure.legend(loc="outside lower center", ncols=3, fontsize=8)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("figure", help="the SVG file to write")
    parser.add_argument("--machine", help="of the experiment; the first one")
    arguments = parser.parse_args()
    try:
        import matplotlib  # noqa: F401

        results = lab.load(arguments.folder)
        if results.cells.empty:
            raise ValueError(f"{arguments.folder}: no cell has finished")
        machine = arguments.machine or results.cells["machine"].iloc[0]
        draw(*costs_over_bound(results.summary, machine), machine, arguments.figure)
    except ImportError as error:
        print(f"SKIPPED: {error}", file=sys.stderr)
        return MISSING
    except (lab.ResultError, ValueError) as error:
        print(f"lab_figure: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
