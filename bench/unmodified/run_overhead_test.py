"""run_overhead.py measures what it says, with stand-ins for its programs on simulated GPUs.

run_overhead_test.py BUILD
"""

import argparse
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

import run_overhead
from served_model import Places, ServedModel, gap_of, latencies_of
from stand_ins import CONTEXT

BUILD = pathlib.Path(sys.argv[1]).resolve()
# As gpt_loops.py serve: memory, steps in it, a log.
SERVER = CONTEXT + r"""
import json, sys, threading, time
log = sys.argv[sys.argv.index("--log") + 1]
memory = [ctypes.c_uint64() for _ in range(3)]
for one in memory:
    call("cuMemAlloc_v2", ctypes.byref(one), ctypes.c_size_t(4 << 20))
told, steps = [], []
threading.Thread(target=lambda: told.append(sys.stdin.readline()), daemon=True).start()
print(json.dumps({"weights": [hex(one.value) for one in memory], "bytes": 12 << 20}), flush=True)
while not told:
    begin = time.monotonic()
    for one in memory:
        call("cuMemsetD8Async", one, ctypes.c_ubyte(7), ctypes.c_size_t(4 << 20), None)
    call("cuCtxSynchronize")
    steps.append((begin, time.monotonic()))
json.dump({"steps": steps, "said": told[0]}, open(log, "w"))
"""
# As launch_loop: slower under `vmart run`.
LOOP = """
import json, os
print(json.dumps({"launch_us": 4.0 if "VMART_CONTROL" in os.environ else 2.0}))
"""
# As oversubscribed.py, with memory of 8 MiB, of which 6 fit under the limit. WRONG changes what it computes. Under
# `vmart run`, it stays until all its memory was seen.
OVERSUBSCRIBED = CONTEXT + r"""
import json, os, sys, time
for _ in range(40):
    call("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(8 << 20))
offloads, under = "--offload-above" in sys.argv, "VMART_CONTROL" in os.environ
while under and not os.path.exists(os.environ["XDG_RUNTIME_DIR"] + "/seen"):
    time.sleep(0.01)
print(json.dumps({"tokens_s": {"8x128": 10 if offloads else 40 if under else 50},
                  "digest": WRONG if under else "a", "weights_bytes": 320 << 20,
                  "peak_bytes": 320 << 20, "reserved_bytes": 320 << 20}))
"""


def bench(**options):
    return run_overhead.Bench(argparse.Namespace(build=BUILD, built=None, out=None, pairs=2, moves=1,
                                                 shapes="8x128", **options))


class TellingPlaces(Places):
    """Tells the program once it has seen all memory of that."""

    def look(self, client):
        super().look(client)
        if sum(self.looks[-1][1].values()) >= 320 << 20:
            (self.folder / "seen").touch()


class Overhead(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def script(self, text):
        path = pathlib.Path(self.folder.name) / "script.py"
        path.write_text(text)
        return str(path)

    def test_a_model_moves_beside_its_steps(self):
        with ServedModel(BUILD / "runtime/tools/vmart", self.script(SERVER), 1, False) as model:
            begin, end = model.move_to("gpu1")
            second, _ = model.move_to("gpu0")
            log = model.end()
        self.assertLess(begin, end)
        self.assertLess(end, second)
        self.assertGreater(len(latencies_of(log["steps"], begin, end)), 0)
        self.assertEqual((model.bytes, log["said"]), (12 << 20, "end\n"))

    def test_a_model_that_does_not_begin_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "no weights here"):
            ServedModel(None, self.script("raise SystemExit('no weights here')"), 1, False)

    def test_runs_alternate_and_a_missed_bar_is_told(self):
        measured = bench()
        measured.overhead("launches", [sys.executable, self.script(LOOP)], "launch_us", 1)
        self.assertEqual(measured.rows[0]["value"], 100)
        self.assertIs(measured.rows[0]["met"], False)
        self.assertEqual(len(measured.samples["launches"]["bare"]), 2)

    def test_a_policy_that_slows_a_program_down_is_told(self):
        measured = bench()
        at_once = unittest.mock.Mock(side_effect=[[{"rate": r}] for r in (50, 48, 49, 52)])
        measured.paces("slower", at_once, lambda run: run["rate"])
        self.assertEqual(measured.samples["policy: slower"],
                         {"without": [[{"rate": 50}], [{"rate": 52}]], "auto": [[{"rate": 48}], [{"rate": 49}]]})
        self.assertIs(measured.rows[0]["met"], False)
        self.assertEqual([run.args == run_overhead.AUTO for run in at_once.call_args_list], [False, True, True, False])

    def test_programs_at_once_count_by_their_geometric_mean(self):
        measured = bench()
        at_once = unittest.mock.Mock(side_effect=[[{"rate": 1}, {"rate": 4}], [{"rate": 4}] * 2, [{"rate": 4}] * 2, [{"rate": 1}, {"rate": 4}]])
        measured.paces("two", at_once, lambda run: run["rate"])
        self.assertAlmostEqual(measured.rows[0]["value"], 4 / 2)

    def test_the_longest_gap_is_that_about_the_move(self):
        steps = [(0, 1), (1, 2), (2, 9), (9, 10), (10, 30)]
        self.assertEqual(gap_of(steps, 3, 4), 7)
        self.assertEqual(gap_of(steps, 1.2, 1.5), 1)
        self.assertEqual(latencies_of(steps, 3, 4), [7])

    def test_reads_are_local_once_they_stay_so(self):
        reads = [[0.1, 10], [0.2, 99], [0.3, 20], [0.4, 10], [0.5, 96], [0.6, 97], [0.7, 98]]
        self.assertEqual(run_overhead.Bench.local_after({"local_bytes_s": 100, "reads": reads}), 0.5)
        self.assertEqual(run_overhead.Bench.local_after({"local_bytes_s": 200, "reads": reads}),
                         float("inf"))

    def capacity(self, digest):
        script = self.script(OVERSUBSCRIBED.replace("WRONG", repr(digest)))
        measured = bench()
        with unittest.mock.patch.object(run_overhead, "OVERSUBSCRIBED", script), \
                unittest.mock.patch.object(run_overhead, "Places", TellingPlaces), \
                unittest.mock.patch.object(run_overhead.importlib.util, "find_spec", return_value=True):
            measured.capacity()
        return measured

    def test_a_limit_puts_the_rest_elsewhere(self):
        measured = self.capacity("a")
        rows = {row["name"]: row for row in measured.rows}
        self.assertEqual({row["met"] for row in measured.rows}, {True})
        self.assertIn("0.800 of bare, 4.00 x accelerate", rows["capacity: gpu1, 8x128"]["note"])
        limit = measured.samples["capacity"]["limit_bytes"]
        self.assertEqual(limit, (256 << 20) + run_overhead.CAPACITY_EXTRA)
        for name in ("gpu1", "host, auto"):
            places = measured.samples["capacity"][name]["places"]
            self.assertEqual(sum(places.values()), 320 << 20, places)
            self.assertLessEqual(places["gpu0"], limit)
            self.assertEqual("gpu1" in places, name == "gpu1")

    def test_another_output_under_a_limit_is_told(self):
        rows = {row["name"]: row["met"] for row in self.capacity("b").rows}
        self.assertIs(rows["capacity: host, 8x128"], False)
        self.assertIs(rows["capacity: accelerate, 8x128"], True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
