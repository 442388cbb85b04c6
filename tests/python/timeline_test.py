#!/usr/bin/env python3
"""The timeline of PyTorch's examples: what it says of steps and moves, and its picture. The GPU's clock is
a stand-in."""

import pathlib
import sys
import tempfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "pytorch"))

import timeline  # noqa: E402


class Event:
    """A step takes what the test says next."""

    next_ms = 0.0

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        pass

    def synchronize(self):
        pass

    def elapsed_time(self, _):
        return Event.next_ms


class Migration:
    def __init__(self):
        self.ended = False

    def done(self):
        return self.ended

    def wait(self):
        self.ended = True


class Steps(unittest.TestCase):
    def setUp(self):
        self.line = timeline.Timeline(types.SimpleNamespace(cuda=types.SimpleNamespace(Event=Event)))
        self.seconds = 0.0
        self.line.now = lambda: self.seconds

    def step(self, ms):
        Event.next_ms = ms
        self.seconds += 1
        return self.line.step(lambda: ms)

    def test_are_told_apart_by_when_they_began(self):
        self.assertEqual([self.step(ms) for ms in (1, 2, 3, 9, 4)], [1, 2, 3, 9, 4])
        self.assertEqual(self.line.median_ms(0, 4), 2)
        self.assertEqual(self.line.longest_ms(0, 4), 3)
        self.assertEqual(self.line.longest_ms(4, 5), 9)
        self.assertEqual(self.line.lost_ms(2, 1, 5), 8)
        self.assertNotEqual(self.line.median_ms(50), self.line.median_ms(50), "not a number without steps")

    def test_see_moves_end(self):
        first, second = Migration(), Migration()
        self.step(1)
        self.line.move("there", first)
        self.step(1)
        self.assertIsNone(self.line.moves[0][2])
        first.ended = True
        self.step(1)
        self.line.move("back", second)
        self.seconds = 7
        self.line.wait()
        self.assertEqual(self.line.moves, [["there", 1, 3], ["back", 3, 7]])

    def test_are_drawn_with_their_moves(self):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            self.skipTest("needs matplotlib")
        for ms in range(20):
            self.step(ms)
        self.line.move("experts to gpu1", Migration())
        self.seconds = 30
        self.line.wait()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "steps.svg")
            self.line.draw(path, "What moved", "a step [ms]", [("HBM [GiB]", [(0, 1), (9, 2)])])
            text = path.read_text()
            self.line.draw(path, "What moved", "a step [ms]", [("HBM [GiB]", [(0, 1), (9, 2)])])
            self.assertEqual(path.read_text(), text)
        for label in ("What moved", "a step [ms]", "experts to gpu1", "HBM [GiB]", "seconds"):
            self.assertIn(label, text)


if __name__ == "__main__":
    unittest.main()
