"""One process that uses both GPUs: halves of a model, copies between GPUs, and events across them."""

import torch

import rounds
import small_gpt


def pipeline():
    first = small_gpt.make(17, "cuda:0", layers=2)
    second = small_gpt.make(19, "cuda:1", layers=2)
    results = []
    with torch.no_grad():
        for step in range(8):
            words = small_gpt.batch(step, "cuda:0")[:, :-1]
            scores = first(words)
            handed = scores.argmax(-1).to("cuda:1", non_blocking=True)
            back = second(handed).argmax(-1).to("cuda:0")
            results.append(back + words)
    return rounds.digest(*results)


def peer_sums():
    here = torch.arange(4 << 20, device="cuda:0", dtype=torch.int64)
    there = torch.ones(4 << 20, device="cuda:1", dtype=torch.int64)
    for _ in range(6):
        there += here.to("cuda:1")
        here = there.to("cuda:0") % 1_000_003
    return rounds.digest(here, there)


small_gpt.be_exact()
rounds.repeat(lambda: f"pipeline {pipeline()} sums {peer_sums()}")
