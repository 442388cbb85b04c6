#!/usr/bin/env python3
"""Draws what timeline.py recorded: the time of each step, the bytes on each GPU and the loss, over time.

    bench/unmodified/timeline_plots.py docs/measurements/run_timeline_h200x2.json --out docs/images

The same recording gives the same bytes. Needs matplotlib, without which it says so and exits with 77.
"""

import pathlib
import sys

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import plots

GPUS = {"gpu0": ("GPU 0", plots.BLUE), "gpu1": ("GPU 1", plots.ORANGE)}
STEP, LOSS, BARE = plots.GREEN, plots.GREEN, plots.GREY


def mark_moves(rows, moves):
    """A band from begin to end of each move in all rows, which the first row names."""
    for move in moves:
        for axes in rows:
            plots.span(axes, move["begin_s"], move["end_s"], plots.RED, 0.25)
            axes.axvline(move["begin_s"], color=plots.RED, linewidth=0.8)
        label, _ = GPUS[move["to"]]
        text = f" to {label}: {move['bytes'] / 2**30:.1f} GiB\n in {move['end_s'] - move['begin_s']:.2f} s"
        rows[0].annotate(text, (move["begin_s"], 1), xycoords=("data", "axes fraction"), fontsize=8,
                         verticalalignment="top")


def draw_steps(axes, document):
    ends = [step["end_s"] for step in document["steps"]]
    axes.plot(ends, [step["took_ms"] for step in document["steps"]], color=STEP, linewidth=0.8, marker=".",
              markersize=2.5, label="under vmart run")
    axes.axhline(document["bare"]["step_ms"], color=BARE, linestyle="--", linewidth=1,
                 label="bare, median")
    axes.set_ylim(0, 1.35 * max(step["took_ms"] for step in document["steps"]))  # Room for names of moves.
    axes.set_ylabel("step, ms")
    axes.legend(fontsize=8, loc="lower right")


def draw_places(axes, document):
    times = [look["at_s"] for look in document["places"]]
    for place, (label, colour) in GPUS.items():
        sizes = [look[place] / 2**30 for look in document["places"]]
        axes.plot(times, sizes, color=colour, label=label, drawstyle="steps-post")
        plots.area(axes, times, sizes, 0, colour, step="post")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("memory, GiB")
    axes.legend(fontsize=8, loc="center right")


def draw_losses(axes, document):
    ends = [step["end_s"] for step in document["steps"]]
    axes.plot(ends, document["bare"]["losses"], color=BARE, linewidth=3, alpha=0.5, label="bare")
    different = document["first_difference"]
    same = "the same to the last bit" if different is None else f"differs from step {different} on"
    axes.plot(ends, [step["loss"] for step in document["steps"]], color=LOSS, linewidth=0.8,
              label=f"under vmart run: {same}")
    axes.set_ylabel("loss")
    axes.set_xlabel("seconds")
    axes.legend(fontsize=8, loc="upper right")


def draw(pyplot, document):
    figure, rows = pyplot.subplots(3, 1, figsize=(6.8, 5.4), sharex=True, layout="constrained")
    for axes, part in zip(rows, (draw_steps, draw_places, draw_losses)):
        part(axes, document)
    mark_moves(rows, document["moves"])
    rows[0].set_xlim(0, document["steps"][-1]["end_s"])
    plots.title(rows[0], "A training run whose memory moves to the other GPU and back")
    figure.align_ylabels(rows)
    return figure


def draw_all(document, folder):
    return [plots.write(folder / "run_timeline.svg", draw, document)]


if __name__ == "__main__":
    sys.exit(plots.main(__doc__, draw_all))
