#!/usr/bin/env python3
"""Moves an operand of NCCL's all-reduces while they go on, live and held, and checks the sums.

    nccl_beside.py LIBVMART.SO [--live 500] [--held 100] [--benchmark_filter=RE] [--benchmark_out=FILE]

One process drives all GPUs that it sees, so that a stop may cut a collective in two: one GPU stands
before its part and another waits inside of its own. Leaves with 77 without PyTorch and two GPUs.
What it writes reads like Google Benchmark's output; `bench/run.py --live` gathers it.
"""

import argparse
import ctypes
import json
import os
import pathlib
import re
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
import torch_pool  # Before torch: it sets what torch reads once.

torch = torch_pool.torch
MIB = 1 << 20
WORDS = 64 * MIB // 4  # A chunk of 64 MiB.
AHEAD = 4  # Rounds that the host enqueues before it waits for the first of them.
ALONE_S = 2.0  # How long the rounds are timed without moves, before and after.
HELD_PERIOD_S = 0.05  # A program that stops everything does it now and then.
BUSY = 5  # VMART_BUSY
SCOPE_HOLD = 2  # VMART_SCOPE_HOLD


class MigrateOptions(ctypes.Structure):
    _fields_ = [("size_bytes", ctypes.c_size_t), ("mode", ctypes.c_int32), ("scope", ctypes.c_int32),
                ("deadline_ms", ctypes.c_int64), ("priority", ctypes.c_int32),
                ("reserve_first", ctypes.c_int32), ("nothing_runs", ctypes.c_int32),
                ("wait_for_pins", ctypes.c_int32), ("paranoid", ctypes.c_int32)]


class MigrationReport(ctypes.Structure):
    _fields_ = [("size_bytes", ctypes.c_size_t), ("bytes_asked", ctypes.c_uint64),
                ("bytes_moved", ctypes.c_uint64), ("bytes_copied_twice", ctypes.c_uint64),
                ("outcome", ctypes.c_int32), ("chunks", ctypes.c_int32),
                ("chunks_moved", ctypes.c_int32), ("chunks_live", ctypes.c_int32),
                ("retries", ctypes.c_int32), ("reserved", ctypes.c_int32),
                ("wall_ns", ctypes.c_int64), ("stall_median_ns", ctypes.c_int64),
                ("stall_p99_ns", ctypes.c_int64), ("stall_max_ns", ctypes.c_int64)]


class AllReduces:
    """Rounds on a stream a GPU: each adds 1 to its operand, all operands are summed, and each adds
    the sum to what it has gathered. Numbers are 32 bits wide and wrap around."""

    def __init__(self, vmart, gpus):
        self.gpus = gpus
        self.streams = [torch.cuda.Stream(device=gpu) for gpu in range(gpus)]
        self.operands, self.sums, self.gathered, self.events = [], [], [], []
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
        for gpu in range(gpus):
            torch.cuda.synchronize(gpu)
        for stream in self.streams:
            torch.cuda.set_stream(stream)  # The current one of its GPU, which NCCL takes.
        self.rounds = 0
        self.go_round()  # Communicators and kernels are made now.
        self.wait()

    def go_round(self):
        if len(self.events) >= AHEAD:
            self.events.pop(0).synchronize()
        for operand in self.operands:
            operand.add_(1)
        torch.cuda.nccl.all_reduce(self.operands, outputs=self.sums)
        for gathered, summed in zip(self.gathered, self.sums):
            gathered.add_(summed)
        event = torch.cuda.Event()
        event.record(self.streams[0])
        self.events.append(event)
        self.rounds += 1

    def wait(self):
        for stream in self.streams:
            stream.synchronize()

    def go_on(self, goes_on):
        """Rounds as long as that says. Returns how many a second."""
        begin, first = time.monotonic(), self.rounds
        while goes_on():
            self.go_round()
        self.wait()
        return (self.rounds - first) / (time.monotonic() - begin)

    def go_on_for(self, seconds):
        end = time.monotonic() + seconds
        return self.go_on(lambda: time.monotonic() < end)

    def wrong(self):
        """How many of the gathered words are not what the rounds come to."""
        count = torch.arange(WORDS, dtype=torch.int64, device="cuda:0")
        wanted = self.gpus * (self.rounds * count + self.rounds * (self.rounds + 1) // 2)
        wanted = ((wanted + (1 << 31)) % (1 << 32) - (1 << 31)).to(torch.int32).cpu()
        return sum(int((gathered.cpu() != wanted).sum()) for gathered in self.gathered)


class Mover(threading.Thread):
    """Sends a tensor from GPU to GPU, so many times, and keeps what each move came to."""

    def __init__(self, vmart, tensor, gpus, moves, options, period_s):
        super().__init__(daemon=True)
        self.vmart, self.tensor, self.gpus, self.moves = vmart, tensor, gpus, moves
        self.options, self.period_s = options, period_s
        self.reports, self.busy, self.failure = [], 0, None
        self.never = threading.Event()

    def run(self):
        try:
            at = 0
            for _ in range(self.moves):
                report, moved = self.move((at + 1) % self.gpus)
                if moved:
                    at = (at + 1) % self.gpus
                    self.reports.append(report)
                else:
                    self.busy += 1
                if self.period_s:
                    self.never.wait(self.period_s)
        except Exception as error:  # Whatever it was: the main thread reports it.
            self.failure = error

    def move(self, gpu):
        migration = self.vmart.start_move(self.tensor, gpu, self.options)
        try:
            status = self.vmart.library.vmart_migration_wait(migration)
            if status not in (0, BUSY):
                raise RuntimeError(self.vmart.library.vmart_last_error().decode())
            report = MigrationReport(size_bytes=ctypes.sizeof(MigrationReport))
            self.vmart.call("vmart_migration_report_get", migration, ctypes.byref(report))
            return report, status == 0
        finally:
            self.vmart.library.vmart_migration_release(migration)


def measure(vmart, reduces, name, moves, options, period_s):
    """One entry of the output, and its series."""
    before = reduces.go_on_for(ALONE_S)
    mover = Mover(vmart, reduces.operands[0], reduces.gpus, moves, options, period_s)
    begin = time.monotonic()
    mover.start()
    beside = reduces.go_on(mover.is_alive)
    moves_per_s = moves / (time.monotonic() - begin)
    mover.join()
    if mover.failure:
        raise mover.failure
    after = reduces.go_on_for(ALONE_S)
    wrong = reduces.wrong()
    stalls_us = [report.stall_median_ns / 1e3 for report in mover.reports]
    entry = {"name": name, "run_type": "iteration", "time_unit": "us",
             "real_time": statistics.median(stalls_us) if stalls_us else 0,
             "moves": len(mover.reports), "busy": mover.busy,
             "retries": sum(report.retries for report in mover.reports),
             "chunks_live": sum(report.chunks_live for report in mover.reports),
             "lost_share": 1 - beside / statistics.mean((before, after)),
             "rounds_per_s": beside, "moves_per_s": moves_per_s}
    if wrong:
        entry.update(error_occurred=True, error_message=f"{wrong} words of the sums are wrong")
    return entry, {"name": name, "stall_us": stalls_us,
                   "retries": [report.retries for report in mover.reports]}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--live", type=int, default=500, help="moves")
    parser.add_argument("--held", type=int, default=100, help="moves")
    parser.add_argument("--benchmark_filter", default="")
    parser.add_argument("--benchmark_out")
    return parser.parse_known_args()[0]


def main():
    arguments = parse_arguments()
    if torch is None or torch.cuda.device_count() < 2:
        print("SKIPPED: this needs PyTorch and two GPUs", file=sys.stderr)
        return torch_pool.EXIT_SKIPPED
    # Half of what it is by default, so that what retries cost has room in the same share.
    os.environ.setdefault("VMART_STALL_BUDGET_US", "30000")
    gpus = torch.cuda.device_count()
    for gpu in range(gpus):
        torch.zeros(1, device=f"cuda:{gpu}")
    torch.cuda.set_device(0)
    vmart = torch_pool.Vmart(arguments.library)
    reduces = AllReduces(vmart, gpus)
    for stream in reduces.streams:
        vmart.attach(stream)
    held = MigrateOptions(size_bytes=ctypes.sizeof(MigrateOptions), scope=SCOPE_HOLD)
    cases = [("live/nccl/live/64MiB", arguments.live, None, 0),
             ("live/nccl/held/64MiB", arguments.held, held, HELD_PERIOD_S)]
    entries = []
    for name, moves, options, period_s in cases:
        if not re.search(arguments.benchmark_filter, name):
            continue
        entry, series = measure(vmart, reduces, name, moves, options, period_s)
        entries.append(entry)
        print(json.dumps(entry), flush=True)
        if os.environ.get("VMART_BENCH_SERIES"):
            with open(os.environ["VMART_BENCH_SERIES"], "a", encoding="utf-8") as out:
                out.write(json.dumps(series) + "\n")
        if arguments.benchmark_out:  # After each: a hang in the next loses nothing.
            pathlib.Path(arguments.benchmark_out).write_text(json.dumps({"benchmarks": entries}))
    for stream in reduces.streams:
        vmart.detach(stream)
    return 1 if any("error_occurred" in entry for entry in entries) else 0


if __name__ == "__main__":
    sys.exit(main())
