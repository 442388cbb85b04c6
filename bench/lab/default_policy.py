#!/usr/bin/env python3
"""Is the default policy ever worse than doing nothing? Judges bench/experiments/default.json.

    vmart-lab run bench/experiments/default.json --out FOLDER
    default_policy.py FOLDER [--keep TABLE.csv]   the tables, and what they are made of
    default_policy.py TABLE.csv                   the tables again

Time is the makespan of closed loops, and the cost of open ones, whose makespan no policy can change.
A real trace is of the test set if the first digit of the SHA-256 of its name is odd; docs/results/study.md says
what was chosen on it nevertheless. Standard library only.
"""

import argparse
import csv
import hashlib
import pathlib
import statistics
import sys

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))
import figures

KEPT = ("machine", "trace", "kind", "policy", "seconds", "cost_s", "access_move_s", "accesses_lost",
        "lower_bound_s", "regret")
BASE = "static"
MOVERS = ("drift", "phases", "rebalance")
WORSE = 1.01


def is_test(trace):
    return int(hashlib.sha256(trace.encode()).hexdigest()[0], 16) % 2 == 1


class Cell:
    """One machine, trace and policy."""

    def __init__(self, row):
        self.row = {name: row[name] for name in KEPT}
        self.machine, self.trace, self.policy = row["machine"], row["trace"], row["policy"]
        self.real, self.lost = row["kind"] == "real", float(row["accesses_lost"]) > 0
        bound, regret = row["lower_bound_s"], row["regret"]
        self.over_bound = None if regret == "" or self.lost else 1 + float(regret)
        seconds = float(row["seconds"])
        self.closed = (bool(bound) and regret != ""
                       and abs(float(bound) * (1 + float(regret)) - seconds) < 1e-6 * seconds)
        self.time_s = seconds if self.closed else float(row["cost_s"])


def read_cells(path):
    path = path / "results.csv" if path.is_dir() else path
    with path.open(encoding="utf-8", newline="") as lines:
        return [Cell(row) for row in csv.DictReader(lines)]


def keep(cells, path):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, KEPT, lineterminator="\n")
        writer.writeheader()
        writer.writerows(cell.row for cell in cells)


class Comparison:
    """Each policy beside the base, where neither lost accesses."""

    def __init__(self, cells):
        self.cells = cells
        self.policies = list(dict.fromkeys(cell.policy for cell in cells))
        self.base = {(cell.machine, cell.trace): cell for cell in cells if cell.policy == BASE}

    def ratios(self, policy, wanted):
        """By machine and trace, the policy's time over the base's."""
        found = {}
        for cell in self.cells:
            base = self.base.get((cell.machine, cell.trace))
            if cell.policy == policy and wanted(cell) and base and not cell.lost and not base.lost:
                found[cell.machine, cell.trace] = cell.time_s / base.time_s
        return found

    def over_bound(self, policy, memory):
        """Of the test set's traces."""
        return [cell.over_bound for cell in self.cells
                if cell.policy == policy and cell.real and is_test(cell.trace)
                and cell.machine.endswith(memory) and cell.over_bound is not None]


def summary_row(comparison, policy):
    """What the bars ask of the policy, as text; a row."""
    row = [f"`{policy}`"]
    for chosen in (lambda trace: not is_test(trace), is_test):
        ratios = comparison.ratios(policy, lambda cell, of=chosen: cell.real and of(cell.trace)).values()
        worse = sum(ratio > WORSE for ratio in ratios)
        row += [f"{worse} of {len(ratios)}", f"{max(ratios):.3f}" if ratios else "-"]
    for memory in ("half", "ample"):
        over = comparison.over_bound(policy, memory)
        row.append(f"{statistics.median(over):.3f}" if over else "-")
    moved = comparison.ratios(policy, lambda cell: cell.trace in MOVERS).values()
    return row + [f"{statistics.fmean(moved):.3f}" if moved else "-"]


SUMMARY = ["policy", "tuned: worse by > 1 %", "worst", "test: worse by > 1 %", "worst",
           "test, half: over the bound, median", "ample", "drift, phases, rebalance: mean"]


def trace_rows(comparison, policies):
    """A row for each machine and trace: the base's time, and each policy's over it."""
    ratios = {policy: comparison.ratios(policy, lambda _: True) for policy in policies}
    for (machine, trace), base in comparison.base.items():
        of = "generated" if not base.real else "test" if is_test(trace) else "tuned"
        over = "-" if base.over_bound is None else f"{base.over_bound:.3f}"
        yield [machine, trace, of, "closed" if base.closed else "open",
               "lost" if base.lost else f"{base.time_s:.5g}", over,
               *(f"{ratios[policy][machine, trace]:.3f}" if (machine, trace) in ratios[policy] else "-"
                 for policy in policies)]


def tables(cells):
    comparison = Comparison(cells)
    others = [policy for policy in comparison.policies if policy != BASE]
    summary = figures.table(SUMMARY, [summary_row(comparison, policy) for policy in comparison.policies])
    head = ["machine", "trace", "set", "loop", f"`{BASE}`, s", "over its bound",
            *(f"`{policy}`" for policy in others)]
    return f"{summary}\n\n{figures.table(head, list(trace_rows(comparison, others)))}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path, help="a result folder, or a kept table")
    parser.add_argument("--keep", type=pathlib.Path, help="where to keep what the tables need")
    arguments = parser.parse_args()
    cells = read_cells(arguments.results)
    if arguments.keep:
        keep(cells, arguments.keep)
    print(tables(cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
