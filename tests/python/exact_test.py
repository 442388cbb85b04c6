#!/usr/bin/env python3
"""Compares the exact optimum of random instances with that of another program of them, which HiGHS solves:
exact_test.py PRINT_INSTANCES. Shares no code with the lab: the instances come as JSON. Prints how far the other
bounds are below. Exits with 77, which ctest shows as skipped, where highspy is missing."""

import json
import os
import statistics
import subprocess
import sys
import unittest

SKIPPED = 77
PROGRAM = sys.argv.pop()
INSTANCES = 300
CLOSE = 1e-6
SEED = os.environ.get("VMART_SEED", "1")
try:
    import highspy
except ImportError as error:
    print(f"SKIPPED: {error}", file=sys.stderr)
    sys.exit(SKIPPED)


def shortest(direct):
    """The cheapest routes of any number of moves."""
    ways = [list(row) for row in direct]
    places = range(len(ways))
    for by in places:
        for source in places:
            for target in places:
                ways[source][target] = min(ways[source][target], ways[source][by] + ways[by][target])
    return ways


class Program:
    """One instance: in each block a chunk goes from where it lies to where it is used, and from there to where it
    lies at the end of the block. `lies[chunk, block, place]` is 1 there, and the flows between are continuous."""

    def __init__(self, instance):
        self.instance = instance
        self.places = range(len(instance["capacities"]))
        self.ways = shortest(instance["moves"])
        self.solver = highspy.Highs()
        self.solver.setOptionValue("output_flag", False)
        self.solver.setOptionValue("mip_rel_gap", 0.0)
        self.solver.setOptionValue("mip_abs_gap", 0.0)
        self.cost, self.room = instance["floor_s"], {}
        for chunk in instance["chunks"]:
            self.add(chunk)
        for (_, place), rows in self.room.items():
            self.solver.addConstr(sum(size * lies for size, lies in rows) <= instance["capacities"][place])

    def add(self, chunk):
        last = min(chunk["end"], self.instance["blocks"] - 1)
        costs = {use["block"]: use["costs"] for use in chunk["uses"]}
        if len(costs) != len(chunk["uses"]):
            raise ValueError("two uses of a chunk in one block")
        before = {place: self.solver.addBinary() for place in chunk["begin_places"]}
        self.solver.addConstr(sum(before.values()) == 1)
        for block in range(chunk["begin"], last + 1):
            before = self.pass_block(before, costs.get(block, [0] * len(self.places)))
            if block < chunk["end"]:
                for place, lies in before.items():
                    self.room.setdefault((block, place), []).append((chunk["bytes"], lies))

    def pass_block(self, before, used):
        after = {place: self.solver.addBinary() for place in self.places}
        flows = {(source, by, target): self.solver.addVariable(0, 1)
                 for source in before for by in self.places for target in self.places}
        for source, lies in before.items():
            self.solver.addConstr(sum(flow for key, flow in flows.items() if key[0] == source) == lies)
        for target, lies in after.items():
            self.solver.addConstr(sum(flow for key, flow in flows.items() if key[2] == target) == lies)
        for (source, by, target), flow in flows.items():
            self.cost = self.cost + (self.ways[source][by] + used[by] + self.ways[by][target]) * flow
        return after

    def optimum(self):
        self.solver.minimize(self.cost)
        if self.solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise ValueError(f"no optimum: {self.solver.getModelStatus()}")
        return self.solver.getInfo().objective_function_value


def instances():
    done = subprocess.run([PROGRAM, str(INSTANCES), SEED], check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class ExactOptimum(unittest.TestCase):
    def test_equals_that_of_another_program(self):
        compared, loose, contended = 0, [], 0
        for number, instance in enumerate(instances()):
            with self.subTest(instance=number, seed=SEED):
                best = Program(instance).optimum()
                bounds = instance["bounds"]
                self.assertIn("exact", bounds)
                self.assertLessEqual(abs(bounds["exact"] - best), CLOSE * best)
                for name in ("event", "lagrangian"):
                    self.assertLessEqual(bounds[name], best * (1 + CLOSE), name)
                compared += 1
                if best > 0:
                    loose.append(best / max(bounds["event"], bounds["lagrangian"]))
                contended += best > bounds["event"] * (1 + CLOSE)
        self.assertGreaterEqual(min(compared, len(loose)), 200)
        self.assertGreater(contended, 20, "capacities say nothing")
        print(f"optimum / lagrangian bound of {compared} instances, {contended} of which contend for room: "
              f"median {statistics.median(loose):.4f}, worst {max(loose):.4f}", file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
