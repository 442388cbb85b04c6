#!/usr/bin/env python3
"""Draws what the GPUs read over time while their hot sets drift, with the scheduler, from the samples
that `run.py --placement --out FILE` kept.

    bench/placement_plots.py docs/measurements/placement.json --out docs/images

The same samples give the same bytes. Needs matplotlib, without which it says so and exits with 77.
"""

import argparse
import json
import pathlib
import re
import sys

import figures
import live_plots

LINES = {
    "best": ("best static placement of the phase", "#009E73", "--"),
    "first_touch": ("first touch", "#E69F00", "-."),
    "managed": ("managed memory", "#666666", ":"),
}


def drift_course(measured, phase_s):
    """Times, GB/s with the scheduler, and of each phase what it is held against; None without samples."""
    samples = next(iter(measured.matching("placement/drift/.*")), None)
    rates = samples and samples.series.get("gb_s")
    if not rates:
        return None
    managed = next(iter(measured.matching(samples.name.replace("placement", "managed"))), None)
    phases = []
    count = sum(re.fullmatch(r"phase\d+_best_gb_s", name) is not None for name in samples.counters)
    look_s = phase_s * count / len(rates)
    for phase in range(count):
        counters = {"best": samples.counter(f"phase{phase}_best_gb_s"),
                    "first_touch": samples.counter(f"phase{phase}_first_touch_gb_s"),
                    "managed": managed and managed.counter(f"phase{phase}_managed_gb_s")}
        phases.append((phase * phase_s, (phase + 1) * phase_s, counters))
    gpus = re.search(r"gpus(\d+)", samples.name).group(1)
    return gpus, [(index + 0.5) * look_s for index in range(len(rates))], rates, phases


def draw_drift(pyplot, course):
    gpus, times, rates, phases = course
    figure, axes = pyplot.subplots(figsize=(7.2, 3.6), layout="constrained")
    axes.plot(times, rates, color="#0072B2", label="with the scheduler")
    for name, (label, colour, dashes) in LINES.items():
        first = True
        for begin, end, counters in phases:
            if counters[name] is None:
                continue
            axes.plot([begin, end], [counters[name]] * 2, color=colour, linestyle=dashes,
                      label=label if first else None)
            first = False
    for begin, _, _ in phases[1:]:
        axes.axvline(begin, color="#bbbbbb", linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds; the hot sets drift at each line")
    axes.set_ylabel("GB/s of all GPUs")
    axes.set_title(f"{gpus} GPUs that step together", loc="left", fontsize=10)
    axes.legend(fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_all(document, folder, seconds):
    """Returns the paths of what it wrote: nothing without samples."""
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
    course = drift_course(figures.Measurements(document), 2 * seconds)
    if course is None:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "placement_drift.svg"
    with matplotlib.rc_context(live_plots.STYLE):
        figure = draw_drift(pyplot, course)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    return [path]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("docs/images"))
    parser.add_argument("--seconds", type=float, default=3, help="those that the run was given")
    arguments = parser.parse_args()
    if not live_plots.has_matplotlib():
        print("SKIPPED: matplotlib is not installed", file=sys.stderr)
        return live_plots.SKIPPED
    for path in draw_all(json.loads(arguments.samples.read_text()), arguments.out, arguments.seconds):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
