#!/usr/bin/env python3
"""Draws what kernel_progress.py recorded: how far a kernel comes while its memory moves to the host and back.

    bench/suspension/kernel_progress_plots.py FILE.json --out docs/images

The same recording gives the same bytes. Needs matplotlib, without which it says so and exits with 77.
"""

import pathlib
import sys

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import plots


def draw_whole(axes, measured, done):
    for span in measured["moves"]:
        place = {"host": "to the host", "gpu": "to HBM"}[span["to"]]
        axes.annotate(place, (span["end_ms"], done[-1]), xytext=(3, -4), textcoords="offset points", fontsize=9, va="top")
    axes.set_ylabel("GiB counted in by the kernel")
    plots.title(axes, "One kernel, which never ends; its memory moves")


def draw_first_move(axes, measured, times, done):
    span = measured["moves"][0]
    first, last = span["begin_ms"] - 1, span["end_ms"] + 2
    axes.set_xlim(first, last)
    near = [at for time_ms, at in zip(times, done) if first <= time_ms <= last]
    margin = (near[-1] - near[0]) * 0.05
    axes.set_ylim(near[0] - margin, near[-1] + margin)
    plots.title(axes, "The move to the host")


def draw(pyplot, measured):
    figure, (whole, zoomed) = pyplot.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained", width_ratios=(3, 2))
    times = [i * measured["bin_us"] / 1000 for i in range(len(measured["passes"]))]
    done = [passes * measured["bytes"] / 2**30 for passes in measured["passes"]]
    for axes in (whole, zoomed):
        for span in measured["moves"]:
            plots.span(axes, span["begin_ms"], span["end_ms"], plots.ORANGE, 0.25)
        axes.plot(times, done, color=plots.BLUE)
        axes.set_xlabel("ms")
    draw_whole(whole, measured, done)
    draw_first_move(zoomed, measured, times, done)
    return figure


def draw_all(document, folder):
    return [plots.write(folder / "kernel_progress.svg", draw, document)]


if __name__ == "__main__":
    sys.exit(plots.main(__doc__, draw_all))
