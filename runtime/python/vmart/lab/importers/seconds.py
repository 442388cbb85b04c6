"""Things that a file dates by whole seconds."""


class SpreadSeconds:
    """Spreads the things of each second evenly over it, and lets time pass `speed` times as fast: calls `use` with
    the ns since the first of those seconds, and the thing. Requires: seconds do not decrease."""

    def __init__(self, speed, use):
        self._speed = speed
        self._use = use
        self._first = self._second = None
        self._waiting = []  # Things of `_second`.

    def add(self, second, *thing):
        if second != self._second:
            self.finish()
            self._second = second
            if self._first is None:
                self._first = second
        self._waiting.append(thing)

    def finish(self):
        for which, thing in enumerate(self._waiting):
            seconds = self._second - self._first + which / len(self._waiting)
            self._use(int(seconds / self._speed * 1e9), *thing)
        self._waiting.clear()
