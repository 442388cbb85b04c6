#!/usr/bin/env python3
"""32 of 256 experts of 16 MiB change GPU while a CUDA graph of their layer replays; beside it, a reload of the same experts
from pinned host memory, between two replays.

    torch_experts.py [--repeats 5] [--json FILE]

The layer is that of examples/pytorch/experts.py. A replay is launched when the one before has ended. Each row is one second
from the beginning of a move or reload, medians of the repeats:

    took        until the experts had moved, or were reloaded
    stall       in all, from the report of the move: its gates times their median; at most: times the longest
    longest     replay in the second
    lost        of the second: how much longer its replays took than at the paces before (while it moves) and after
    lost by it  the same, against the pace before alone: what reading the experts through NVLink costs is in it

The bar, for a move: at most 3 ms of stall in all, at most 2 % lost. Each output is compared to the last bit. Leaves with 77
without PyTorch, vmart and two GPUs.
"""

import json
import pathlib
import statistics
import sys
import time

BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(BENCH), str(BENCH.parent / "examples" / "pytorch")]
import experts  # Leaves with 77.
from harness.programs import parser_of

torch, vmart = experts.torch, experts.vmart
STALL_BAR_MS, LOST_BAR_PERCENT = 3.0, 2.0
PACE_S, WINDOW_S = 1.0, 1.0


class Replays:
    """Of the layer's graph, one at a time."""

    def __init__(self):
        torch.manual_seed(1)
        self.layer = experts.Layer()
        self.layer.router.to("cuda", torch.bfloat16)
        tokens = torch.randn(experts.TOKENS, experts.WIDTH, device="cuda", dtype=torch.bfloat16)
        self._graph = torch.cuda.CUDAGraph()
        with torch.no_grad():
            self.layer(tokens)  # Loads what cannot be loaded in a capture.
            with torch.cuda.graph(self._graph):
                self._out = self.layer(tokens)
        self._graph.replay()
        self._expected = self._out.clone()
        self.wrong = torch.zeros((), device="cuda", dtype=torch.int64)
        self.count = 0

    def one(self):
        """Seconds of a replay and of the look at its output."""
        begin = time.perf_counter()
        self._graph.replay()
        self.wrong.add_((self._out != self._expected).any())
        torch.cuda.synchronize(0)
        self.count += 1
        return time.perf_counter() - begin

    def pace(self):
        """Seconds a replay, while nothing moves."""
        until, taken = time.perf_counter() + PACE_S, []
        while time.perf_counter() < until:
            taken.append(self.one())
        return statistics.mean(taken)

    def second(self, began, ended):
        """The second after `began`: replays, the longest, when it ended, and when `ended()` first said so."""
        taken, done = [], None
        while time.perf_counter() < began + WINDOW_S:
            taken.append(self.one())
            if done is None and ended():
                done = time.perf_counter()
        return taken, time.perf_counter(), done


def row(taken, began, until, done, paces):
    """Shares of the second that were lost, and the longest replay."""
    moving = min(done, until) - began
    expected = moving / paces[0] + (until - began - moving) / paces[1]
    spent = until - began
    return {"took_ms": (done - began) * 1e3, "longest_ms": max(taken) * 1e3,
            "lost_percent": 100 * (1 - len(taken) / expected), "lost_by_it_percent": 100 * (1 - len(taken) * paces[0] / spent)}


def move(replays, some, place):
    before = replays.pace()
    began = time.perf_counter()
    migration = vmart.migrate_async(some, place)
    taken, until, done = replays.second(began, migration.done)
    report = migration.wait(60)
    measured = row(taken, began, until, done or time.perf_counter(), (before, replays.pace()))
    return {**measured, "gates": report.gates, "bytes": report.bytes_moved, "longest_stall_ms": report.stall_max * 1e3,
            "stall_ms": report.gates * report.stall_median * 1e3, "stall_most_ms": report.gates * report.stall_max * 1e3}


def reload(replays, weights, kept):
    before = replays.pace()
    began = time.perf_counter()
    for weight, copy in zip(weights, kept):
        weight.copy_(copy, non_blocking=True)
    torch.cuda.synchronize(0)
    done = time.perf_counter()
    taken, until, _ = replays.second(began, lambda: True)
    measured = row(taken, began, until, done, (before, before))
    return {**measured, "stall_ms": (done - began) * 1e3, "stall_most_ms": (done - began) * 1e3, "gates": 0,
            "bytes": sum(weight.nbytes for weight in weights), "longest_stall_ms": (done - began) * 1e3}


def tell(name, rows, is_a_move):
    median = {key: statistics.median(each[key] for each in rows) for key in rows[0]}
    print(f"{name:9} {median['bytes'] / 2**20:.0f} MiB: took {median['took_ms']:.1f} ms, {median['gates']:.0f} gates, stall "
          f"{median['stall_ms']:.2f} ms in all (at most {median['stall_most_ms']:.2f}), longest replay {median['longest_ms']:.2f} ms, "
          f"lost {median['lost_percent']:.2f} % ({median['lost_by_it_percent']:.2f} % of the pace before)")
    if is_a_move:
        met = median["stall_ms"] <= STALL_BAR_MS, median["lost_percent"] <= LOST_BAR_PERCENT
        print(f"{'':9} the bar: <= {STALL_BAR_MS:g} ms {'met' if met[0] else 'NOT met'}, "
              f"<= {LOST_BAR_PERCENT:g} % {'met' if met[1] else 'NOT met'}")


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, help="all rows, as a file")
    given = parser.parse_args()
    replays = Replays()
    some = list(replays.layer.experts[: experts.MOVING])
    weights = [weight.data for expert in some for weight in expert.parameters()]
    kept = [weight.cpu().pin_memory() for weight in weights]
    rows = {"to gpu1": [], "to gpu0": [], "reload": []}
    print(f"{torch.cuda.get_device_name()}: a replay takes {replays.pace() * 1e3:.3f} ms", flush=True)
    for _ in range(given.repeats):
        rows["to gpu1"].append(move(replays, some, "gpu1"))
        rows["to gpu0"].append(move(replays, some, "gpu0"))
        rows["reload"].append(reload(replays, weights, kept))
    for name, measured in rows.items():
        tell(name, measured, name != "reload")
    print(f"{int(replays.wrong)} of {replays.count} outputs differ")
    if given.json:
        given.json.write_text(json.dumps(rows), encoding="utf-8")
    return int(replays.wrong) != 0


if __name__ == "__main__":
    sys.exit(main())
