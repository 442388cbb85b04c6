"""DistributedDataParallel on two GPUs, a process each."""

import torch

import processes
import rounds
import small_gpt

STEPS = 6


def train(rank):
    small_gpt.be_exact()
    model = small_gpt.make(13, f"cuda:{rank}", layers=2)
    parallel = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimiser = torch.optim.AdamW(parallel.parameters(), lr=1e-3)
    losses = []
    for step in range(STEPS):
        loss = small_gpt.loss_of(parallel, small_gpt.batch(100 * rank + step, f"cuda:{rank}"))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return f"process {rank}: losses {rounds.digest(torch.stack(losses))} " \
           f"weights {rounds.digest(*model.parameters())}"


if __name__ == "__main__":
    processes.run(train)
