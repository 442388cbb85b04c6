"""The figures of docs/results/study.md: the time of each policy over that of `static`, on real traces by machine
and trace, and on generated ones with a point for each seed. The same study gives the same bytes. Needs
matplotlib."""

import math

import study_tables
from harness import plots
from study_cells import BASE

COLOURS = (plots.BLUE, plots.ORANGE, plots.GREEN, plots.PURPLE, plots.SKY, plots.RED, plots.GREY)
RATIO_MAX = 4.0  # The scale's ends; what is beyond has the end's colour, and its number.


def panels_of(pyplot, experiment, columns, height_in):
    """The figure, and a panel a machine, one below the other, of so many columns and inches."""
    figure, panels = pyplot.subplots(len(experiment.machines), 1, squeeze=False, sharex=True, layout="constrained",
                                     figsize=(2.5 + 0.5 * max(columns, 8), height_in))
    return figure, panels[:, 0]


def draw_heat(pyplot, axes, experiment, machine, policies):
    from matplotlib import colors

    scale = colors.LogNorm(1 / RATIO_MAX, RATIO_MAX, clip=True)
    shade = pyplot.get_cmap("PuOr_r").with_extremes(bad="#eeeeee")
    rows = [[(experiment.ratios(policy, machine, trace) or [math.nan])[0] for trace in experiment.traces]
            for policy in policies]
    picture = axes.imshow(rows, norm=scale, cmap=shade, aspect="auto")
    for y, row in enumerate(rows):
        for x, ratio in enumerate(row):
            if not math.isnan(ratio) and abs(ratio - 1) > study_tables.WORSE - 1:
                dark = abs(math.log(ratio)) > 0.7 * math.log(RATIO_MAX)
                axes.text(x, y, f"{ratio:.2f}", ha="center", va="center", fontsize=6,
                          color="white" if dark else "black")
    axes.set_yticks(range(len(policies)), policies, fontsize=8)
    plots.slanted_ticks(axes, experiment.traces)
    axes.grid(False)
    plots.title(axes, machine)
    return picture


def heat_map(pyplot, study):
    """A panel a machine. Ratios that count as equal have no number."""
    experiment = study.experiments[study_tables.POLICIES]
    policies = study_tables.all_but_base(experiment)
    figure, panels = panels_of(pyplot, experiment, len(experiment.traces),
                               1.6 + len(experiment.machines) * (0.4 + 0.19 * len(policies)))
    for axes, machine in zip(panels, experiment.machines):
        picture = draw_heat(pyplot, axes, experiment, machine, policies)
    figure.colorbar(picture, ax=panels.tolist(), label=f"time / that of {BASE}", extend="both",
                    ticks=(0.25, 0.5, 1, 2, 4), format=lambda value, _: f"{value:g}", shrink=0.6)
    return figure


def points(pyplot, study):
    """A panel a machine, a column a policy, a colour a trace, a point a seed."""
    experiment = study.experiments[study_tables.GENERATED]
    policies = study_tables.all_but_base(experiment)
    figure, panels = panels_of(pyplot, experiment, len(policies), 1.2 + 1.9 * len(experiment.machines))
    for axes, machine in zip(panels, experiment.machines):
        for index, trace in enumerate(experiment.traces):
            shift = (index + 0.5) / len(experiment.traces) - 0.5
            found = [(x + 0.8 * shift, ratio) for x, policy in enumerate(policies)
                     for ratio in experiment.ratios(policy, machine, trace)]
            axes.plot([x for x, _ in found], [ratio for _, ratio in found], linestyle="", marker="o",
                      markersize=2.5, color=COLOURS[index % len(COLOURS)], label=trace)
        axes.axhline(1, color="#888888", linewidth=0.8)
        axes.set_yscale("log")
        plots.title(axes, machine)
        axes.set_ylabel(f"time / {BASE}", fontsize=8)
    plots.slanted_ticks(panels[-1], policies)
    panels[0].legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


FIGURES = {"study_real.svg": heat_map, "study_generated.svg": points}


def draw_all(study, folder):
    """Returns the paths of what it wrote."""
    return [plots.write(folder / name, draw, study) for name, draw in FIGURES.items()]
