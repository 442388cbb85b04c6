"""Collectives of NCCL between two processes, on whole numbers, so that every sum is exact."""

import torch
import torch.distributed as dist

import processes
import rounds

COUNT = 8 << 20  # Floats: 32 MiB.


def exchange(rank):
    device = f"cuda:{rank}"
    mine = torch.arange(COUNT, device=device, dtype=torch.float32).remainder(1000) + rank
    parts = []
    for step in range(4):
        dist.all_reduce(mine)
        mine.remainder_(1000)
        halves = [torch.empty_like(mine) for _ in range(processes.COUNT)]
        dist.all_gather(halves, mine + rank)
        own = torch.empty(COUNT // 2, device=device)
        dist.reduce_scatter_tensor(own, halves[1 - rank])
        dist.broadcast(mine, step % processes.COUNT)
        received = torch.empty_like(own)
        requests = dist.batch_isend_irecv([dist.P2POp(dist.isend, own, 1 - rank),
                                           dist.P2POp(dist.irecv, received, 1 - rank)])
        for request in requests:
            request.wait()
        parts += [own, received]
    torch.cuda.synchronize()
    return f"process {rank}: {rounds.digest(mine, *parts)}"


if __name__ == "__main__":
    processes.run(exchange)
