#!/usr/bin/env python3
"""Draws live moves from the samples that `run.py --live --out FILE` kept: stall by size, and what an
application gets done over time while its memory moves.

    bench/live/live_plots.py docs/measurements/live_h200x2.json --out docs/images

The same samples give the same bytes. Needs matplotlib, without which it says so and exits with 77.
"""

import pathlib
import sys

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))
import live_figures
from harness import plots
from harness.samples import Measurements, at_fraction, size_key

# Each has a colour and a mark of its own.
WAYS = {
    "live": ("live", plots.BLUE, "o"),
    "live_budget": ("live, 60 ms of stall a second", plots.SKY, "o"),
    "stopped": ("stopped, chunk by chunk", plots.ORANGE, "s"),
    "held": ("held for the whole move", plots.RED, "^"),
    "prefetch": ("managed prefetch, from begin to end", plots.GREY, "D"),
}
SHOWN_BEFORE_MS = 20
SHOWN_AFTER_MS = 40


def stall_by_size(measured):
    """Of each way: bytes, median and p99 in microseconds, by size."""
    found = {}
    for way in ("live", "stopped", "held"):
        for samples in measured.matching(f"live/size/{way}/.*"):
            median, p99, _ = live_figures.spread_us(samples, "stall")
            if median:
                found.setdefault(way, []).append((size_key(samples)[1], median, p99))
    for samples in measured.matching("prefetch/gpu0-gpu1/.*"):
        p99 = at_fraction(samples.us, 0.99)
        found.setdefault("prefetch", []).append(
            (size_key(samples)[1], samples.median(), p99))
    return {way: sorted(points) for way, points in found.items()}


def size_label(size_bytes):
    mebibytes = size_bytes / (1 << 20)
    return f"{mebibytes / 1024:g} GiB" if mebibytes >= 1024 else f"{mebibytes:g} MiB"


def draw_stalls(pyplot, by_way):
    figure, axes = pyplot.subplots(figsize=(6.4, 3.8), layout="constrained")
    for way, points in by_way.items():
        label, colour, marker = WAYS[way]
        sizes = [point[0] for point in points]
        axes.plot(sizes, [point[1] for point in points], color=colour, marker=marker, label=label)
        plots.area(axes, sizes, [point[1] for point in points], [point[2] for point in points], colour)
    sizes = sorted({point[0] for points in by_way.values() for point in points})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [size_label(size) for size in sizes])
    axes.minorticks_off()
    axes.set_ylim(bottom=min(100, *(point[1] for points in by_way.values() for point in points)))
    axes.yaxis.set_major_formatter(lambda us, _: f"{us / 1000:g} ms" if us >= 1000 else f"{us:g} us")
    axes.set_xlabel("bytes that move")
    axes.set_ylabel("one stop")
    plots.title(axes, "How long the application stands: median, shaded to p99")
    axes.legend(fontsize=9)
    return figure


def courses(measured):
    """Of each way: times from the beginning of the move, share of what is done undisturbed, its end."""
    found = {}
    for way in WAYS:
        for samples in measured.matching(f"live/timeline/{way}/.*"):
            begin, end = samples.counter("begin_ms"), samples.counter("end_ms")
            times, rates = samples.series["at_ms"], samples.series["launches_per_ms"]
            before = [rate for at, rate in zip(times, rates) if at <= begin]
            if not before or sum(before) == 0:
                continue
            usual = sum(before) / len(before)
            found[way] = ([at - begin for at in times], [100 * rate / usual for rate in rates],
                          end - begin)
    return found


def draw_courses(pyplot, by_way):
    figure, rows = pyplot.subplots(len(by_way), 1, figsize=(6.4, 0.7 + 1.15 * len(by_way)),
                                   sharex=True, sharey=True, squeeze=False, layout="constrained")
    shade = None
    for axes, (way, (times, shares, end)) in zip(rows[:, 0], by_way.items()):
        label, colour, _ = WAYS[way]
        shade = plots.span(axes, 0, end, "#000000", 0.07)
        axes.plot(times, shares, color=colour, linewidth=1)
        plots.title(axes, label, size=9, pad=3)
        axes.set_yticks([0, 50, 100])
    last = max(end for _, _, end in by_way.values())
    rows[0, 0].set_xlim(-SHOWN_BEFORE_MS, last + SHOWN_AFTER_MS)
    rows[0, 0].set_ylim(0, 130)
    rows[-1, 0].set_xlabel("milliseconds since the move began")
    figure.supylabel("launches, % of undisturbed", fontsize=10)
    figure.legend([shade], ["memory moves"], loc="outside upper right", fontsize=9)
    return figure


PICTURES = {"live_stall_by_size.svg": (stall_by_size, draw_stalls), "live_timeline.svg": (courses, draw_courses)}


def draw_all(document, folder):
    """Returns the paths written: none where the document has nothing to draw."""
    measured = Measurements(document)
    found = {name: data_of(measured) for name, (data_of, _) in PICTURES.items()}
    return [plots.write(folder / name, PICTURES[name][1], data) for name, data in found.items() if data]


if __name__ == "__main__":
    sys.exit(plots.main(__doc__, draw_all))
