#!/usr/bin/env python3
"""Moves an operand of NCCL's all-reduces while they go on, live and held, and checks the sums.

    nccl_beside.py LIBVMART.SO [--live 500] [--held 100] [--benchmark_filter=RE] [--benchmark_out=FILE]

One process drives all GPUs that it sees, so that a stop may cut a collective in two: one GPU stands
before its part and another waits inside of its own. Live moves come from a thread of their own.
Held ones come from the thread that submits the rounds, with some of them under way: no promise
covers work that another thread submits while a hold closes. Leaves with 77 without PyTorch and two
GPUs. What it writes reads like Google Benchmark's output; `bench/run.py --live` gathers it.

Time lost is what is missing of the rounds that would have been made without moves, with the operand
on each GPU for as long as it was: kernels are slower where it is not at home.
"""

import concurrent.futures
import ctypes
import json
import os
import pathlib
import re
import statistics
import sys
import time

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # No multicast.
# Half of what it is by default, so that what retries cost has room in the same share.
os.environ.setdefault("VMART_STALL_BUDGET_US", "30000")
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.programs import Benchmarks, skip
from harness.vmart_calls import MigrateOptions, report_of, torch_pool

torch = torch_pool.torch
MIB = 1 << 20
WORDS = 64 * MIB // 4  # A chunk of 64 MiB.
WRITTEN = WORDS // 16  # Of these, the first so many change in each round.
AHEAD = 4  # Rounds that are under way at a time, at most.
ALONE_S = 1.0  # How long the rounds are timed with the operand on each GPU.
CASE_S = 60.0  # Then a case ends with the moves that it has made.
HELD_PERIOD_S = 0.1  # A program that stops everything does it now and then.
BUSY = 5  # VMART_BUSY
MODE_LIVE, SCOPE_HOLD = 1, 2  # VMART_MODE_LIVE, VMART_SCOPE_HOLD


class AllReduces:
    """Rounds on a stream a GPU: each adds 1 to a part of its operand, all operands are summed, and
    each adds the sum to what it has gathered. Numbers are 32 bits wide and wrap around."""

    def __init__(self, vmart, gpus):
        self.gpus = gpus
        self.streams = [torch.cuda.Stream(device=gpu) for gpu in range(gpus)]
        self.events = [torch.cuda.Event() for _ in range(AHEAD)]  # Made now: not beside a hold.
        self.operands, self.sums, self.gathered = [], [], []
        for gpu in range(gpus):
            torch.cuda.set_device(gpu)
            count = torch.arange(WORDS, dtype=torch.int32, device=f"cuda:{gpu}")
            if gpu == 0:
                with torch.cuda.use_mem_pool(vmart.pool):
                    self.operands.append(count.clone())  # The one that moves.
            else:
                self.operands.append(count)
            self.sums.append(torch.zeros_like(count))
            self.gathered.append(torch.zeros_like(count))
        self.written = [operand[:WRITTEN] for operand in self.operands]
        for gpu in range(gpus):
            torch.cuda.synchronize(gpu)
        for stream in self.streams:
            torch.cuda.set_stream(stream)  # The current one of its GPU, which NCCL takes.
        self.rounds = 0
        for _ in range(2 * AHEAD):  # Communicators and kernels are made now.
            self.go_round()
        self.wait()

    def go_round(self):
        event = self.events[self.rounds % AHEAD]
        event.synchronize()  # Of one that was never recorded it returns at once.
        for written in self.written:
            written.add_(1)
        torch.cuda.nccl.all_reduce(self.operands, outputs=self.sums)
        for gathered, summed in zip(self.gathered, self.sums):
            gathered.add_(summed)
        event.record(self.streams[0])
        self.rounds += 1

    def wait(self):
        for stream in self.streams:
            stream.synchronize()

    def rate_alone(self):
        """Rounds a second. None is under way before, nor after."""
        first, begin = self.rounds, time.monotonic()
        while time.monotonic() < begin + ALONE_S:
            self.go_round()
        self.wait()
        return (self.rounds - first) / (time.monotonic() - begin)

    def wrong(self):
        """How many of the gathered words are not what the rounds come to."""
        count = torch.arange(WORDS, dtype=torch.int64, device="cuda:0")
        wanted = self.rounds * count
        wanted[:WRITTEN] += self.rounds * (self.rounds + 1) // 2
        wanted *= self.gpus
        wanted = ((wanted + (1 << 31)) % (1 << 32) - (1 << 31)).to(torch.int32).cpu()
        return sum(int((gathered.cpu() != wanted).sum()) for gathered in self.gathered)


class Moves:
    """So many moves of one tensor from GPU to GPU: what each came to, and how long it lay on each."""

    def __init__(self, vmart, tensor, gpus, options, wanted):
        self.vmart, self.tensor, self.gpus, self.options = vmart, tensor, gpus, options
        self.reports, self.busy, self.retries = [], 0, 0
        self.seconds_at = [0.0] * gpus
        self.at = self.ask()
        self.since = time.monotonic()
        self.wanted, self.end = wanted, self.since + CASE_S

    def ask(self):
        return int(re.fullmatch(r"gpu\((\d+)\)", self.vmart.where(self.tensor)).group(1))

    def count(self):
        return len(self.reports) + self.busy

    def go_on(self):
        return self.count() < self.wanted and time.monotonic() < self.end

    def move_on(self):
        report, status = self.move((self.at + 1) % self.gpus)
        self.look()
        self.retries += report.retries
        if status == BUSY:
            self.busy += 1
        else:
            assert report.chunks_moved > 0, "it lay there already"
            self.reports.append(report)

    def look(self):
        now = time.monotonic()
        self.seconds_at[self.at] += now - self.since
        self.at, self.since = self.ask(), now

    def move(self, gpu):
        """Blocks until it has ended. Returns its report and VMART_OK or VMART_BUSY."""
        migration = self.vmart.start_move(self.tensor, gpu, self.options)
        try:
            status = self.vmart.library.vmart_migration_wait(migration)
            if status not in (0, BUSY):
                raise RuntimeError(self.vmart.library.vmart_last_error().decode())
            return report_of(self.vmart, migration), status
        finally:
            self.vmart.library.vmart_migration_release(migration)


def move_live(reduces, moves):
    def move_all():
        while moves.go_on():
            moves.move_on()

    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as migrator:
        moved = migrator.submit(move_all)
        while not moved.done():
            reduces.go_round()
        moved.result()  # Raises what it failed with.


def move_held(reduces, moves):
    while moves.go_on():
        next_move = time.monotonic() + HELD_PERIOD_S
        while time.monotonic() < next_move:
            reduces.go_round()
        moves.move_on()


def rates_at_each_gpu(vmart, reduces):
    rates = []
    for gpu in range(reduces.gpus):
        vmart.wait(vmart.start_move(reduces.operands[0], gpu))
        rates.append(reduces.rate_alone())
    return rates


def measure(benchmarks, vmart, reduces, name, move, wanted, options):
    rates = rates_at_each_gpu(vmart, reduces)
    warming = Moves(vmart, reduces.operands[0], reduces.gpus, options, reduces.gpus)
    move(reduces, warming)  # The first move of a kind makes contexts and loads kernels.
    reduces.wait()
    moves = Moves(vmart, reduces.operands[0], reduces.gpus, options, wanted)
    first, begin = reduces.rounds, time.monotonic()
    move(reduces, moves)
    reduces.wait()
    seconds = time.monotonic() - begin
    moves.look()
    alone = sum(rate * at for rate, at in zip(rates, moves.seconds_at))
    stalls_us = [report.stall_median_ns / 1e3 for report in moves.reports]
    wrong = reduces.wrong()
    benchmarks.add(name, "us", statistics.median(stalls_us) if stalls_us else 0,
                   f"{wrong} words of the sums are wrong" if wrong else None,
                   moves=len(moves.reports), busy=moves.busy, retries=moves.retries,
                   chunks_live=sum(report.chunks_live for report in moves.reports),
                   lost_share=1 - (reduces.rounds - first) / alone, rounds_per_s=(reduces.rounds - first) / seconds,
                   moves_per_s=moves.count() / seconds)
    if os.environ.get("VMART_BENCH_SERIES"):
        with open(os.environ["VMART_BENCH_SERIES"], "a", encoding="utf-8") as out:
            out.write(json.dumps({"name": name, "stall_us": stalls_us}) + "\n")


def why_not():
    if torch is None or torch.cuda.device_count() < 2:
        return "this needs PyTorch and two GPUs"
    if os.environ.get("VMART_DRIVER", "cuda") != "cuda":
        return f"PyTorch's kernels do not run on {os.environ['VMART_DRIVER']}"
    return ""


def run_cases(benchmarks, vmart, reduces):
    most = int(os.environ.get("VMART_BENCH_MOVES", "1000000"))
    size_bytes = ctypes.sizeof(MigrateOptions)
    cases = [("live/nccl/live/64MiB", move_live, benchmarks.flags.live,
              MigrateOptions(size_bytes=size_bytes, mode=MODE_LIVE)),
             ("live/nccl/held/64MiB", move_held, benchmarks.flags.held,
              MigrateOptions(size_bytes=size_bytes, scope=SCOPE_HOLD))]
    for name, move, wanted, options in cases:
        if benchmarks.wants(name):
            measure(benchmarks, vmart, reduces, name, move, min(wanted, most), options)


def main():
    benchmarks = Benchmarks(__doc__, live=(500, "moves"), held=(100, "moves"))
    if reason := why_not():
        return skip(reason)
    gpus = torch.cuda.device_count()
    for gpu in range(gpus):
        torch.zeros(1, device=f"cuda:{gpu}")
    torch.cuda.set_device(0)
    vmart = torch_pool.Vmart(benchmarks.flags.library)
    reduces = AllReduces(vmart, gpus)
    for stream in reduces.streams:
        vmart.attach(stream)
    run_cases(benchmarks, vmart, reduces)
    for stream in reduces.streams:
        vmart.detach(stream)
    del reduces
    vmart.close()
    return benchmarks.status()


if __name__ == "__main__":
    sys.exit(main())
