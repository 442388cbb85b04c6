#!/usr/bin/env python3
"""Draws what timeline.py recorded: the time of each step, the bytes on each GPU and the loss, over time.

    timeline_plot.py docs/measurements/run_timeline_h200x2.json --out docs/images/run_timeline.svg

The same recording gives the same bytes. Needs matplotlib, without which it says so and exits with 77.
"""

import argparse
import json
import pathlib
import sys

sys.path[1:1] = [str(pathlib.Path(__file__).resolve().parents[1])]
from live_plots import SKIPPED, STYLE, has_matplotlib

GPUS = {"gpu0": ("GPU 0", "#0072B2"), "gpu1": ("GPU 1", "#E69F00")}
STEP, LOSS, BARE = "#009E73", "#009E73", "#666666"


def mark_moves(rows, moves):
    """A band from begin to end of each move in all rows, which the first row names."""
    for move in moves:
        for axes in rows:
            axes.axvspan(move["begin_s"], move["end_s"], color="#D55E00", alpha=0.25, linewidth=0)
            axes.axvline(move["begin_s"], color="#D55E00", linewidth=0.8)
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
        axes.fill_between(times, sizes, color=colour, alpha=0.15, linewidth=0, step="post")
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


def draw(document, path):
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot

    with matplotlib.rc_context(STYLE):
        figure, rows = pyplot.subplots(3, 1, figsize=(6.8, 5.4), sharex=True, layout="constrained")
        for axes, part in zip(rows, (draw_steps, draw_places, draw_losses)):
            part(axes, document)
        mark_moves(rows, document["moves"])
        rows[0].set_xlim(0, document["steps"][-1]["end_s"])
        rows[0].set_title("A training run whose memory moves to the other GPU and back", loc="left",
                          fontsize=10)
        figure.align_ylabels(rows)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("docs/images/run_timeline.svg"))
    arguments = parser.parse_args()
    if not has_matplotlib():
        print("SKIPPED: matplotlib is not installed", file=sys.stderr)
        return SKIPPED
    draw(json.loads(arguments.recording.read_text()), arguments.out)
    print(arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
