"""Two processes of PyTorch that talk through NCCL. The first prints what both came to."""

import faulthandler
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

import rounds

COUNT = 2


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _run(rank, port, seconds, make_round):
    faulthandler.enable()
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=COUNT,
                            device_id=torch.device("cuda", rank))
    begin, number, first, is_over = time.monotonic(), 0, None, False
    while not is_over:
        results = [None] * COUNT
        dist.all_gather_object(results, make_round(rank))
        first = first or results
        if results != first:
            print(f"round {number}: {results}\nround 0: {first}", flush=True)
            os._exit(1)
        number += 1
        # The first process decides for both, so that both see the same rounds.
        decision = [number >= rounds.ROUNDS_MIN and time.monotonic() > begin + seconds]
        dist.broadcast_object_list(decision, 0)
        is_over = decision[0]
    if rank == 0:
        print("\n".join(first), flush=True)
        print(f"{number} rounds", file=sys.stderr)
    dist.destroy_process_group()


def run(make_round):
    """`make_round(rank)` returns a text. Exits with 1 if a round differs from the first."""
    try:
        processes.spawn(_run, (free_port(), rounds.seconds_to_run(), make_round), COUNT)
    except processes.ProcessExitedException as error:
        print(error, file=sys.stderr)
        sys.exit(1)
