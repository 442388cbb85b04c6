"""Policies see what a program uses under `vmart run`, and move nothing that they cannot judge.
uses_test.py VMART PROGRAM"""

import contextlib
import itertools
import json
import pathlib
import re
import sys
import tempfile
import time
import unittest

from run_test import PROGRAM, VMART, Running, places, run

LAB = VMART.with_name("vmart-lab")

# What they save counts wherever it is, since simulated GPUs are hardly busy.
POLICIES = ("cost_benefit", "auto:limit=0,guard_limit=0")
GPU0, GPU1 = {"gpu(0)"}, {"gpu(1)"}
# By their sizes in MiB: see uses_program.cpp.
USED = {"graphs": {4, 6, 10, 14}, "captured": {4, 6, 8, 10}, "plain": {4, 6, 8, 10, 12},
        "threads": {4, 6, 8}}
SHARED, MOVING = 4, 6


def lies(running):
    """Where the buffers of each size in MiB lie."""
    result = {}
    for one in running.where():
        result.setdefault(one["bytes"] >> 20, set()).update(places(one))
    return result


class Uses(unittest.TestCase):
    @contextlib.contextmanager
    def running(self, policy, work):
        with self.subTest(policy=policy, work=work):
            with Running("linked", work, "--policy", policy) as running:
                yield running

    def wait_until(self, running, moved, limit_s=60):
        deadline = time.monotonic() + limit_s
        while not moved(lies(running)):
            self.assertLess(time.monotonic(), deadline, f"{lies(running)}\n{running.errors()}")

    def test_move_memory_to_the_gpu_that_uses_it(self):
        for policy, (work, used) in itertools.product(POLICIES, USED.items()):
            with self.running(policy, work) as running:
                self.wait_until(running, lambda at: all(at[size] == GPU1 for size in used))
                others = {size: at for size, at in lies(running).items() if size not in used}
                self.assertEqual(set(map(tuple, others.values())), {tuple(GPU0)}, others)
                self.assertIn("done\n", running.end())

    def test_of_unknown_place_count_where_the_program_allocated_the_memory(self):
        for policy in POLICIES:
            with self.running(policy, "unplaced") as running:
                running.control("migrate", "run", "gpu1")
                self.wait_until(running, lambda at: all(at[size] == GPU0 for size in (6, 8, 10)))
                self.assertEqual(lies(running)[16], GPU1)
                self.assertIn("done\n", running.end())

    def test_that_are_not_seen_on_the_other_gpu_move_nothing(self):
        for policy in POLICIES:
            with self.running(policy, "blind") as running:
                self.assert_shared_memory_stays(running)

    def test_of_both_gpus_move_nothing(self):
        for policy in POLICIES:
            with self.running(policy, "evenly") as running:
                self.assert_shared_memory_stays(running)

    def test_in_turns_hardly_move_anything(self):
        for policy in POLICIES:
            with self.running(policy, "alternating") as running:
                self.wait_until_seen(running)
                moves = json.loads(running.control("stats", "--json"))["scheduler"]["moves_done"]
                turns = int(re.search(r"turns: (\d+)", running.end())[1])
                # `auto` may try moves, but not many.
                self.assertLess(5 * moves, turns)

    def test_of_many_launches_count_by_bytes_and_move_nothing_that_is_read_in_turns(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as machine:
            gpus = json.loads((pathlib.Path(__file__).parent / "tiny_gpus.json").read_text())
            gpus["gpus"][0]["memory_mib"] = 256
            json.dump(gpus, machine)
            machine.flush()
            # Of twenty buffers of 4 MiB, five have to leave.
            with Running("linked", "cyclic", "--capacity", "gpu0=64MiB,gpu1=5MiB", "--policy", "auto",
                         SIMCUDA_MACHINE=machine.name, VMART_PRESSURE_LIMIT_MS="60000") as running:
                self.assertLessEqual(self.moves_until_they_stop(running), 5 + 5)
                rates = [self.gigabytes_a_second(running, one) for one in running.where()]
                self.assertLess(max(rates), 4 * min(rates), rates)
                self.assertIn("done\n", running.end())

    @unittest.skipUnless(LAB.exists(), f"{LAB} is not built")
    def test_of_graphs_count_as_often_as_these_are_launched(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(VMART, "run", "--", PROGRAM, "linked", "counted", VMART_RECORD=folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            (recording,) = pathlib.Path(folder).glob("*.rec")
            trace = pathlib.Path(folder) / "trace.jsonl"
            converted = run(LAB, "convert", "recording", recording, trace)
            self.assertEqual(converted.returncode, 0, converted.stderr)
            events = [json.loads(line) for line in trace.read_text().splitlines()]
        # Their bytes count once a launch, half as read and half as written.
        passes = [event.get("passes", 1) for event in events if event.get("use") == "read_write"]
        self.assertIn(f"launches: {2 * sum(passes):.0f}\n", done.stdout)

    def moves_until_they_stop(self, running, still_s=2, limit_s=60):
        def look():
            stats = json.loads(running.control("stats", "--json"))["scheduler"]
            return stats["moves_done"], stats["uses"]

        moves, uses = look()
        since = begin = time.monotonic()
        while time.monotonic() < since + still_s or look()[1] < uses + 20_000:
            self.assertLess(time.monotonic(), begin + limit_s, f"{moves} moves\n{running.errors()}")
            if look()[0] != moves:
                moves, uses = look()
                since = time.monotonic()
        return moves

    def gigabytes_a_second(self, running, allocation):
        text = running.control("explain", allocation["address"])
        return float(re.search(r"gpu0 uses it (\S+) GB/s now", text)[1])

    def wait_until_seen(self, running):
        # The other buffer shows when the policy has seen enough. It is moved away once, since the
        # moves of one decision may end at different times.
        self.wait_until(running, lambda at: at[MOVING] == GPU0)
        running.control("migrate", "largest:1", "gpu1")
        self.wait_until(running, lambda at: at[MOVING] == GPU0)

    def assert_shared_memory_stays(self, running):
        self.wait_until_seen(running)
        self.assertEqual(lies(running)[SHARED], GPU0)
        self.assertIn("done\n", running.end())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
