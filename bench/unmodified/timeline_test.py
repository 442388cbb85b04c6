"""Goal: timeline.py records moves, places and losses of a program on simulated GPUs, and sees losses that differ;
timeline_plots.py draws the same bytes from the same recording, with all that it must name.

    timeline_test.py BUILD
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import timeline
import timeline_plots
from harness.plots import has_matplotlib
from stand_ins import CONTEXT

BUILD = pathlib.Path(sys.argv[1]).resolve()
# As trained_gpt.py: memory, steps in it, a log. WRONG changes a loss of runs that a line ends.
TRAINING = CONTEXT + r"""
import json, sys, threading, time
def option(name, default):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default
steps_wanted = int(option("--steps", 0))
memory = ctypes.c_uint64()
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(8 << 20))
told, steps, losses = [], [], []
if not steps_wanted:
    threading.Thread(target=lambda: told.append(sys.stdin.readline()), daemon=True).start()
print(json.dumps({"weights": [hex(memory.value)], "bytes": 8 << 20}), flush=True)
while not told and not 0 < steps_wanted <= len(steps):
    begin = time.monotonic()
    call("cuMemsetD8Async", memory, ctypes.c_ubyte(7), ctypes.c_size_t(8 << 20), None)
    call("cuCtxSynchronize")
    time.sleep(0.01)  # So that a run has hundreds of steps, not thousands.
    losses.append(1 / (len(steps) + 3) + ("WRONG" in sys.argv and not steps_wanted and len(steps) == 4))
    steps.append((begin, time.monotonic()))
json.dump({"steps": steps, "losses": losses}, open(option("--log", None), "w"))
"""


def recording(**changes):
    """As of a run of nine seconds with steps of 50 ms."""
    steps = [{"end_s": number / 20, "took_ms": 50.0 + 40 * (60 < number < 120), "loss": 9 / (number + 1)}
             for number in range(180)]
    places = [{"at_s": number / 10, "gpu0": 0 if 30 < number < 60 else 12 << 30,
               "gpu1": 12 << 30 if 30 < number < 60 else 0, "host0": 0} for number in range(90)]
    moves = [{"to": "gpu1", "begin_s": 3.0, "end_s": 3.12, "bytes": 12 << 30},
             {"to": "gpu0", "begin_s": 6.0, "end_s": 6.11, "bytes": 12 << 30}]
    return {"context": {}, "steps": steps, "places": places, "moves": moves, "steps_compared": 183,
            "first_difference": None, "bare": {"step_ms": 49.5, "losses": [step["loss"] for step in steps]},
            **changes}


class Recorder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def record(self, *more):
        path = pathlib.Path(self.folder.name)
        (path / "training.py").write_text(TRAINING)
        program = " ".join((sys.executable, str(path / "training.py"), *more))
        done = subprocess.run([sys.executable, "-B", timeline.__file__, str(BUILD), "--between", "0.2",
                               "--program", program, "--out", str(path / "out.json")],
                              capture_output=True, text=True, check=False, timeout=120)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done.returncode, json.loads((path / "out.json").read_text())

    def test_keeps_moves_places_and_losses_of_a_program(self):
        code, document = self.record()
        self.assertEqual((code, document["first_difference"]), (0, None))
        there, back = document["moves"]
        self.assertEqual((there["to"], there["bytes"], back["to"], back["bytes"]),
                         ("gpu1", 8 << 20, "gpu0", 8 << 20))
        between = [look for look in document["places"] if there["end_s"] < look["at_s"] < back["begin_s"]]
        self.assertEqual([between[0][place] for place in ("gpu0", "gpu1", "host0")], [0, 8 << 20, 0])
        self.assertEqual(document["bare"]["losses"], [step["loss"] for step in document["steps"]])
        self.assertGreater(document["steps"][-1]["end_s"], back["end_s"])

    def test_sees_a_loss_that_differs(self):
        code, document = self.record("WRONG")
        self.assertEqual((code, document["first_difference"]), (1, 4))


@unittest.skipUnless(has_matplotlib(), "matplotlib is not installed")
class Plot(unittest.TestCase):
    def drawn(self, document):
        with tempfile.TemporaryDirectory() as folder:
            [path] = timeline_plots.draw_all(document, pathlib.Path(folder) / "images")
            return path.read_text()

    def test_the_same_recording_gives_the_same_bytes_with_all_moves_named(self):
        text = self.drawn(recording())
        self.assertEqual(text, self.drawn(recording()))
        self.assertNotIn("dc:date", text)
        for name in ("to GPU 1: 12.0 GiB", "in 0.12 s", "to GPU 0: 12.0 GiB", "bare, median",
                     "the same to the last bit", "memory, GiB"):
            self.assertIn(name, text)

    def test_a_difference_is_told(self):
        self.assertIn("differs from step 7 on", self.drawn(recording(first_difference=7)))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
