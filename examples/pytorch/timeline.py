"""What the examples of PyTorch share: steps that are timed on the GPU while memory moves, and a picture of
them."""

import os
import sys
import time

EXIT_SKIPPED = 77
STYLE = {"svg.hashsalt": "vmart", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False,
         "axes.spines.right": False, "axes.axisbelow": True, "legend.frameon": False}


def modules(gpus):
    """torch and vmart; ends the program where they or so many GPUs are missing."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # Products come out the same each time.
    try:
        import torch
        import vmart
    except ImportError as error:
        print(f"SKIPPED: {error}")
        sys.exit(EXIT_SKIPPED)
    if torch.cuda.device_count() < gpus:
        print(f"SKIPPED: this needs {gpus} GPUs that PyTorch can use")
        sys.exit(EXIT_SKIPPED)
    return torch, vmart


class Timeline:
    """Runs steps and notes when each began and how long the GPU took, and when memory moved beside them."""

    def __init__(self, torch):
        self.torch = torch
        self.begin = time.perf_counter()
        self.steps = []  # (seconds, milliseconds)
        self.moves = []  # [label, from seconds, to seconds]
        self._running = []

    def now(self):
        return time.perf_counter() - self.begin

    def step(self, run):
        """Returns what `run` returns. One step is in flight at a time, as in serving."""
        began, ended = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        seconds = self.now()
        began.record()
        result = run()
        ended.record()
        ended.synchronize()
        self.steps.append((seconds, began.elapsed_time(ended)))
        self._see_ends()
        return result

    def move(self, label, migration):
        """A migration that has begun."""
        self.moves.append([label, self.now(), None])
        self._running.append((migration, self.moves[-1]))
        return migration

    def wait(self):
        """Until all moves have ended. Raises their errors."""
        for migration, _ in self._running:
            migration.wait()
        self._see_ends()

    def _see_ends(self):
        for running in list(self._running):
            if running[0].done():
                running[1][2] = self.now()
                self._running.remove(running)

    def median_ms(self, begin=0.0, end=float("inf")):
        taken = sorted(self._between(begin, end))
        return taken[len(taken) // 2] if taken else float("nan")

    def longest_ms(self, begin=0.0, end=float("inf")):
        return max(self._between(begin, end), default=float("nan"))

    def lost_ms(self, usual_ms, begin, end):
        """What steps took beyond the usual, in all."""
        return sum(max(ms - usual_ms, 0) for ms in self._between(begin, end))

    def _between(self, begin, end):
        """Of the steps that began then."""
        return [ms for seconds, ms in self.steps if begin <= seconds < end]

    def draw(self, path, title, ylabel, lanes=()):
        """`lanes`: (label, [(seconds, value)]) each, below the steps. Needs matplotlib; says so without."""
        try:
            import matplotlib
        except ImportError:
            print("no picture: matplotlib is missing")
            return
        matplotlib.use("Agg")
        from matplotlib import pyplot

        with pyplot.rc_context(STYLE):
            heights = [2] + [1] * len(lanes)
            figure, axes = pyplot.subplots(
                len(heights), 1, sharex=True, squeeze=False, layout="constrained",
                figsize=(7, 2.4 + 1.1 * len(lanes)), gridspec_kw={"height_ratios": heights})
            axes = axes[:, 0]
            axes[0].plot([s for s, _ in self.steps], [ms for _, ms in self.steps], color="#0072b2", lw=0.9)
            axes[0].set_ylim(bottom=0)
            axes[0].set_ylabel(ylabel)
            axes[0].set_title(title, loc="left", fontsize=10)
            for axis, (label, values) in zip(axes[1:], lanes):
                axis.step([s for s, _ in values], [v for _, v in values], where="post", color="#d55e00")
                axis.set_ylabel(label)
                axis.set_ylim(bottom=0)
            for label, begin, end in self.moves:
                for axis in axes:
                    axis.axvspan(begin, end or self.now(), color="#e69f00", alpha=0.25, linewidth=0)
                axes[0].annotate(label, (begin, 1), xycoords=("data", "axes fraction"), fontsize=7,
                                 va="top", rotation=90)
            axes[-1].set_xlabel("seconds")
            figure.savefig(path, metadata={"Date": None})
            print(f"wrote {path}")
