"""The figures of docs/results/study.md: cost over the lower bound of each policy and trace, and how often a
policy is within how much of the cheapest. The same study gives the same bytes. Needs matplotlib."""

import math

import live_plots
import study_tables

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#666666")
DASHES = ("-", "--", ":")
DARK = 0.55  # Of the scale: from here on text is white.
TICKS = (1, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100)
RATIO_MAX = 100.0  # The scale's end; what is above has its colour, and its number.
PROFILE_MAX = 3.0  # Where policies differ; the worst cases stand in the tables.


def ratios_of(study, machine, policies):
    """A row a policy, a column a trace: cost over the bound, None where there is none."""
    by_trace = {each.trace: each for each in study.of_machine(machine)}
    return [[trace in by_trace and policy in by_trace[trace].cells
             and by_trace[trace].cells[policy].over_bound or None for trace in study.traces]
            for policy in policies]


def shown(ratio):
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def draw_heat(pyplot, axes, rows, policies, traces):
    from matplotlib import colors

    scale = colors.LogNorm(1, RATIO_MAX, clip=True)
    shade = pyplot.get_cmap("viridis_r").with_extremes(bad="#eeeeee")
    grid = [[math.nan if ratio is None else ratio for ratio in row] for row in rows]
    picture = axes.imshow(grid, norm=scale, cmap=shade, aspect="auto")
    for y, row in enumerate(rows):
        for x, ratio in enumerate(row):
            if ratio is not None:
                axes.text(x, y, shown(ratio), ha="center", va="center", fontsize=6,
                          color="white" if scale(ratio) > DARK else "black")
    axes.set_yticks(range(len(policies)), policies, fontsize=8)
    axes.set_xticks(range(len(traces)), traces, fontsize=8, rotation=40, ha="right",
                    rotation_mode="anchor")
    axes.grid(False)
    return picture


def heat_map(pyplot, study):
    """A panel a machine, one below the other."""
    policies = study_tables.order(study, study_tables.fair(study.scenarios))
    height = 1.6 + len(study.machines) * (0.4 + 0.19 * len(policies))
    figure, panels = pyplot.subplots(len(study.machines), 1, squeeze=False, sharex=True,
                                     figsize=(2.5 + 0.45 * max(len(study.traces), 8), height),
                                     layout="constrained")
    for axes, machine in zip(panels[:, 0], study.machines):
        picture = draw_heat(pyplot, axes, ratios_of(study, machine, policies), policies, study.traces)
        axes.set_title(machine, loc="left", fontsize=10)
    figure.colorbar(picture, ax=panels[:, 0].tolist(), label="cost / lower bound", extend="max",
                    format=lambda value, _: f"{value:g}", shrink=0.6)
    return figure


def profile(pyplot, study):
    """Of each policy: the share of machines and traces in which it costs at most so many times what the
    cheapest does."""
    scenarios = study_tables.fair(study.scenarios)
    figure, axes = pyplot.subplots(figsize=(7.2, 4.2), layout="constrained")
    policies = study_tables.order(study, scenarios)
    worst = 1.5
    for index, policy in enumerate(policies):
        ratios = sorted(study_tables.over_cheapest(scenarios, policy))
        if not ratios:
            continue
        worst = min(max(worst, ratios[-1]), PROFILE_MAX)
        places = [1.0, *ratios, RATIO_MAX]
        shares = [0.0, *((n + 1) / len(ratios) for n in range(len(ratios))), 1.0]
        axes.step(places, shares, where="post", label=policy,
                  color=COLOURS[index % len(COLOURS)],
                  linestyle=DASHES[index // len(COLOURS) % len(DASHES)],
                  linewidth=2.4 if policy == study_tables.DEFAULT else 1.1)
    axes.set_xscale("log")
    ticks = [tick for tick in TICKS if tick <= worst]
    axes.set_xlim(1, worst)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(0.3, 1.02)
    axes.set_xlabel("cost / that of the cheapest policy")
    axes.set_ylabel("share of machines x traces")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


FIGURES = {"study_heat.svg": heat_map, "study_profile.svg": profile}


def draw_all(study, folder):
    """Returns the paths of what it wrote."""
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with matplotlib.rc_context(live_plots.STYLE):
        for name, draw in FIGURES.items():
            figure = draw(pyplot, study)
            paths.append(folder / name)
            figure.savefig(paths[-1], metadata={"Date": None, "Creator": None})
            pyplot.close(figure)
    return paths
