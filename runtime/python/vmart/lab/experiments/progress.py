"""The progress of a run on standard error: one line on a terminal, which is written anew for each stage and never
wraps; otherwise a line now and then."""

import os
import sys
import time

from vmart.lab.experiments.run import Watcher

BAR_COLUMNS = 30
BETWEEN_BARS_S = 0.1
BETWEEN_LINES_S = 10


def columns_max():
    """A line that is as wide as the terminal wraps in some, and a wrapped line cannot be overwritten."""
    try:
        return (os.get_terminal_size(sys.stderr.fileno()).columns or 80) - 1
    except OSError:
        return 79


class Progress(Watcher):
    def __init__(self):
        self.terminal = sys.stderr.isatty()
        self.stopped = False
        self.shown = False  # The terminal's line.
        self.what, self.count, self.before, self.done = "", 0, 0, 0

    def stop(self):
        return self.stopped

    def on_stage(self, what, count):
        self.begin(f"{what} ", count, 0)

    def on_step(self):
        self.step("")

    def on_begin(self, cells, finished):
        if finished > 0:
            self.print(f"{finished} of {cells} cells were already finished")
        self.begin("", cells, finished)

    def on_cell(self, identity):
        self.step(identity)

    def begin(self, what, count, done):
        self.what, self.count = what, count
        self.before = self.done = done  # `done` includes `before`.
        self.start = self.printed = time.monotonic()
        if self.terminal:
            self.show("")

    def step(self, name):
        self.done += 1
        now = time.monotonic()
        if now - self.printed >= (BETWEEN_BARS_S if self.terminal else BETWEEN_LINES_S):
            self.printed = now
            self.show(name)

    def show(self, name):
        seconds = time.monotonic() - self.start
        rate = (self.done - self.before) / seconds if seconds > 0 else 0
        rest = f"{(self.count - self.done) / rate:.0f} s left" if rate > 0 else ""
        if not self.terminal:
            print(f"{self.what}{self.done} of {self.count}{'' if self.what else ' cells'}, {rest}", file=sys.stderr)
            return
        full = BAR_COLUMNS * self.done // max(self.count, 1)
        line = f"[{'#' * full:{BAR_COLUMNS}}] {self.done}/{self.count} {self.what}{rest} {name}"
        print(f"\r{line[:columns_max()]}\x1b[K", end="", file=sys.stderr, flush=True)
        self.shown = True

    def print(self, line):
        """In place of the terminal's line, which goes on below."""
        print(f"\r{line}\x1b[K" if self.shown else line, file=sys.stderr)
        self.shown = False

    def end(self):
        if self.shown:
            self.show("")
            print(file=sys.stderr)
