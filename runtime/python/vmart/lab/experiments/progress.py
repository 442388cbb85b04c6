"""The progress of a run on standard error: a bar on a terminal, otherwise a line now and then."""

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
        self.began = False

    def stop(self):
        return self.stopped

    def on_stage(self, what):
        if self.terminal:
            print(what, file=sys.stderr)

    def on_begin(self, cells, finished):
        self.began = True
        self.cells = cells
        self.before = self.done = finished  # `done` includes `before`.
        self.start = self.printed = time.monotonic()
        if finished > 0:
            print(f"{finished} of {cells} cells were already finished", file=sys.stderr)
        if self.terminal:
            self.show("")

    def on_cell(self, identity):
        self.done += 1
        now = time.monotonic()
        if now - self.printed >= (BETWEEN_BARS_S if self.terminal else BETWEEN_LINES_S):
            self.printed = now
            self.show(identity)

    def show(self, identity):
        seconds = time.monotonic() - self.start
        rate = (self.done - self.before) / seconds if seconds > 0 else 0
        rest = f"{(self.cells - self.done) / rate:.0f} s left" if rate > 0 else ""
        if not self.terminal:
            print(f"{self.done} of {self.cells} cells, {rest}", file=sys.stderr)
            return
        full = BAR_COLUMNS * self.done // max(self.cells, 1)
        line = f"[{'#' * full:{BAR_COLUMNS}}] {self.done}/{self.cells} {rest} {identity}"
        print(f"\r{line[:columns_max()]}\x1b[K", end="", file=sys.stderr, flush=True)

    def end(self):
        if self.terminal and self.began:
            self.show("")
            print(file=sys.stderr)
