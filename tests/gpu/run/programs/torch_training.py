"""Eager training in PyTorch: each round trains the same model from the same weights."""

import torch

import rounds
import small_gpt

STEPS = 12


def train():
    model = small_gpt.make(7, "cuda")
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    side, losses = torch.cuda.Stream(), []
    for step in range(STEPS):
        with torch.cuda.stream(side):  # The next batch comes on a stream of its own.
            words = small_gpt.batch(step, "cuda")
        torch.cuda.current_stream().wait_stream(side)
        words.record_stream(torch.cuda.current_stream())
        loss = small_gpt.loss_of(model, words)
        optimiser.zero_grad(set_to_none=step % 3 == 0)
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    weights = rounds.digest(*model.parameters())
    if train.rounds % 4 == 3:
        torch.cuda.empty_cache()  # So that memory is freed and allocated again.
    train.rounds += 1
    return f"loss {torch.stack(losses)[-1].item():.9f} losses {rounds.digest(torch.stack(losses))} " \
           f"weights {weights}"


train.rounds = 0
small_gpt.be_exact()
rounds.repeat(train)
