#!/usr/bin/env python3
"""Draws what the GPUs read over time while their hot sets drift, with the scheduler, from the samples
that `run.py --placement --out FILE` kept.

    bench/placement/placement_plots.py docs/measurements/placement_h200x4.json --out docs/images

The same samples give the same bytes. Needs matplotlib, without which it says so and exits with 77.
"""

import pathlib
import re
import sys

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import plots
from harness.samples import Measurements

LINES = {
    "best": ("best static placement of the phase", plots.GREEN, "--"),
    "first_touch": ("first touch", plots.ORANGE, "-."),
    "managed": ("managed memory", plots.GREY, ":"),
}


def drift_course(measured, phase_s):
    """Times, GB/s with the scheduler, and of each phase what it is held against; None without samples."""
    samples = measured.first("placement/drift/.*")
    rates = samples and samples.series.get("gb_s")
    if not rates:
        return None
    managed = measured.first(samples.name.replace("placement", "managed"))
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
    axes.plot(times, rates, color=plots.BLUE, label="with the scheduler")
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
    plots.title(axes, f"{gpus} GPUs that step together")
    axes.legend(fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_all(document, folder, seconds):
    """Returns the paths of what it wrote: nothing without samples."""
    course = drift_course(Measurements(document), 2 * seconds)
    return [plots.write(folder / "placement_drift.svg", draw_drift, course)] if course else []


if __name__ == "__main__":
    sys.exit(plots.main(__doc__, draw_all, seconds=(3, "those that the run was given")))
