#!/usr/bin/env python3
"""Two processes sum over NCCL while the memory of both moves ten times a second, and checks the sums.

    nccl_processes.py LIBVMART.SO [--seconds 60] [--benchmark_out=FILE]

Each process has a GPU, and two tensors of 64 MiB in a MemPool of vmart's: one that counts, and one that
NCCL's all-reduce sums in place. A thread of each moves both to the other GPU or back every 100 ms, with
nothing attached. Leaves with 77 without PyTorch and two GPUs, with 1 if a sum is wrong. What it writes
reads like Google Benchmark's output.

Time lost is what is missing of the rounds that would have been made without moves, with the memory of
either process at home or away for as long as it was.
"""

import itertools
import os
import pathlib
import socket
import statistics
import sys
import threading
import time

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # No multicast.
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.programs import Benchmarks, skip
from harness.vmart_calls import report_of, torch_pool

torch = torch_pool.torch
MIB = 1 << 20
WORDS = 64 * MIB // 4
COUNT = 2  # Processes, and GPUs.
AHEAD = 4  # Rounds that are under way at a time, at most.
WARM_S = 3.0  # Links and clocks rise to their pace.
PACE_ROUNDS = 2000
PERIOD_S = 0.1


class Rounds:
    """Each adds one to a tensor, copies it to the other, sums that over NCCL and adds the sum to what has
    been gathered. Numbers are 32 bits wide and wrap around."""

    def __init__(self, vmart):
        with torch.cuda.use_mem_pool(vmart.pool):
            self.counted = torch.arange(WORDS, dtype=torch.int32, device="cuda")
            self.summed = torch.zeros_like(self.counted)
        self.gathered = torch.zeros_like(self.counted)
        self.events = [torch.cuda.Event() for _ in range(AHEAD)]
        self.made = 0

    def go(self, rounds):
        """Returns when all have ended: the seconds that they took."""
        begin = time.monotonic()
        for _ in range(rounds):
            event = self.events[self.made % AHEAD]
            event.synchronize()
            self.counted.add_(1)
            self.summed.copy_(self.counted)
            torch.distributed.all_reduce(self.summed)
            self.gathered.add_(self.summed)
            event.record()
            self.made += 1
        torch.cuda.synchronize()
        return time.monotonic() - begin

    def wrong(self):
        """How many of the gathered words are not what the rounds come to."""
        each = torch.arange(WORDS, dtype=torch.int64, device="cuda")
        wanted = COUNT * (self.made * each + self.made * (self.made + 1) // 2)
        wanted = ((wanted + (1 << 31)) % (1 << 32) - (1 << 31)).to(torch.int32)
        return int((self.gathered != wanted).sum())


class Moves:
    """Both tensors of a process, to the other GPU and back."""

    def __init__(self, vmart, rank, tensors):
        self.vmart, self.rank, self.tensors = vmart, rank, tensors
        self.away = False
        self.log = [(time.monotonic(), False)]  # Since when the tensors have been where.
        self.stalls_ms, self.retries, self.failures = [], 0, []

    def move(self, away):
        moves = [self.vmart.start_move(tensor, self.rank ^ int(away)) for tensor in self.tensors]
        for move in moves:
            if self.vmart.library.vmart_migration_wait(move) != 0:
                self.failures.append(self.vmart.library.vmart_last_error().decode())
            report = report_of(self.vmart, move)
            self.retries += report.retries
            self.stalls_ms.append(report.stall_max_ns / 1e6)
            self.vmart.library.vmart_migration_release(move)
        self.away = away
        self.log.append((time.monotonic(), away))

    def run(self, over):
        following = time.monotonic()
        while not over.is_set():
            following += PERIOD_S
            self.move(not self.away)
            over.wait(max(0.0, following - time.monotonic()))


def rounds_alone(logs, rates, end):
    """How many rounds two processes would have made until `end`; `rates` by who is away."""
    changes = sorted((when, rank, away) for rank, log in enumerate(logs) for when, away in log)
    begin = max(log[0][0] for log in logs)
    where, rounds, last = [False] * COUNT, 0.0, begin
    for when, rank, away in [*changes, (end, 0, False)]:
        now = min(max(when, begin), end)
        rounds += (now - last) * rates[tuple(where)]
        where[rank], last = away, now
    return rounds


def measure(rank, library, seconds):
    """The median stall in ms, what is wrong, and the counters of the output."""
    dist = torch.distributed
    vmart = torch_pool.Vmart(library)
    rounds = Rounds(vmart)
    bare = PACE_ROUNDS / rounds.go(PACE_ROUNDS)
    tensors = (rounds.counted, rounds.summed)
    moves = Moves(vmart, rank, tensors)
    for away in (True, False):  # The first move makes contexts and loads kernels.
        moves.move(away)
    wanted = [int(WARM_S * bare)]
    dist.broadcast_object_list(wanted, 0)
    rounds.go(wanted[0])
    rates = {}
    for where in itertools.product((False, True), repeat=COUNT):
        moves.move(where[rank])
        dist.barrier()
        rates[where] = PACE_ROUNDS / rounds.go(PACE_ROUNDS)
    moves.move(False)
    moves = Moves(vmart, rank, tensors)
    wanted = [int(seconds * statistics.mean(rates.values()))]
    dist.broadcast_object_list(wanted, 0)
    over = threading.Event()
    migrator = threading.Thread(target=moves.run, args=(over,))
    dist.barrier()
    moves.log[0] = (time.monotonic(), False)
    migrator.start()
    rounds.go(wanted[0])
    end = time.monotonic()
    over.set()
    migrator.join()
    dist.barrier()
    moves.move(False)
    dist.barrier()
    after = PACE_ROUNDS / rounds.go(PACE_ROUNDS)
    mine = {"log": moves.log, "stalls_ms": moves.stalls_ms, "retries": moves.retries,
            "failures": moves.failures, "wrong": rounds.wrong(), "end": end}
    everybody = [None] * COUNT
    dist.all_gather_object(everybody, mine)
    end = max(each["end"] for each in everybody)
    alone = rounds_alone([each["log"] for each in everybody], rates, end)
    stalls = sorted(stall for each in everybody for stall in each["stalls_ms"])
    failures = [failure for each in everybody for failure in each["failures"]]
    wrong = sum(each["wrong"] for each in everybody)
    error = f"{wrong} words of the sums are wrong" if wrong else failures[0] if failures else None
    counters = {"stall_longest_ms": stalls[-1], "moves": len(stalls), "seconds": end - moves.log[0][0],
                "rounds": wanted[0], "lost_share": 1 - wanted[0] / alone,
                "rounds_per_s_before": bare, "rounds_per_s_after": after,
                "rounds_per_s_alone": {f"away: {where}": rate for where, rate in rates.items()},
                "retries": sum(each["retries"] for each in everybody), "failed": len(failures)}
    return statistics.median(stalls), error, counters


def play(rank, port, benchmarks):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", rank=rank, world_size=COUNT,
                                         device_id=torch.device("cuda", rank))
    stall_ms, error, counters = measure(rank, benchmarks.flags.library, benchmarks.flags.seconds)
    if rank == 0:
        benchmarks.add("live/nccl/processes/64MiB", "ms", stall_ms, error, **counters)
    torch.distributed.destroy_process_group()
    if error:
        os._exit(1)


def main():
    benchmarks = Benchmarks(__doc__, seconds=(60.0, "of moves"))
    if torch is None or torch.cuda.device_count() < COUNT:
        return skip("this needs PyTorch and two GPUs")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    try:
        torch.multiprocessing.spawn(play, (port, benchmarks), COUNT)
    except torch.multiprocessing.ProcessExitedException as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
