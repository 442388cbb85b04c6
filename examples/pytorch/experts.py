#!/usr/bin/env python3
"""Experts of a mixture-of-experts layer move to another GPU and back while a CUDA graph of the layer replays.
The graph is captured once: addresses stay. Each output is compared to the last bit. Beside it stands what one
would do otherwise: a reload of the same experts from host memory, between two replays.

experts.py [PICTURE.svg]     needs PyTorch, the package vmart and two GPUs; exits with 77 without them
"""

import sys

import timeline

torch, vmart = timeline.modules(gpus=2)

EXPERTS, MOVING, WIDTH, INNER, TOKENS = 256, 32, 1024, 4096, 4096  # 16 MiB an expert in bfloat16.
EACH_S = 2.5  # Replays for so long before and after each move.


class Expert(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(WIDTH, INNER, bias=False)
        self.down = torch.nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, tokens):
        return self.down(torch.nn.functional.silu(self.up(tokens)))


class Layer(torch.nn.Module):
    """Each expert takes the tokens that like it most: as many for each, so that a graph can hold it."""

    def __init__(self):
        super().__init__()
        self.router = torch.nn.Linear(WIDTH, EXPERTS, bias=False)
        with vmart.torch.memory(tag="experts"):  # Its memory can move.
            self.experts = torch.nn.ModuleList(
                Expert().to("cuda", torch.bfloat16) for _ in range(EXPERTS))

    def forward(self, tokens):
        weights = self.router(tokens).softmax(dim=-1)
        out = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            share, taken = weights[:, number].topk(2 * TOKENS // EXPERTS)
            out[taken] += share[:, None] * expert(tokens[taken])
        return out


def main(picture):
    torch.manual_seed(1)
    layer = Layer()
    layer.router.to("cuda", torch.bfloat16)
    tokens = torch.randn(TOKENS, WIDTH, device="cuda", dtype=torch.bfloat16)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        layer(tokens)  # Loads what cannot be loaded in a capture.
        with torch.cuda.graph(graph):
            out = layer(tokens)
    graph.replay()
    expected = out.clone()

    line = timeline.Timeline(torch)
    wrong = torch.zeros((), device="cuda", dtype=torch.int64)
    some = list(layer.experts[:MOVING])

    def replay(seconds):
        until = line.now() + seconds
        while line.now() < until:
            line.step(graph.replay)
            wrong.add_((out != expected).any())

    replay(EACH_S)
    for place in ("gpu1", "gpu0"):
        line.move(f"to {place}", vmart.migrate_async(some, place))
        replay(EACH_S)
        line.wait()
    weights = [weight.data for expert in some for weight in expert.parameters()]
    kept = [weight.cpu().pin_memory() for weight in weights]

    def reload():
        for weight, copy in zip(weights, kept):
            weight.copy_(copy, non_blocking=True)
        graph.replay()

    reloaded = line.now()
    line.step(reload)
    wrong += (out != expected).any()
    replay(EACH_S)

    first = line.moves[0][1]
    usual = line.median_ms(0, first)
    print(f"layer: {usual:.3f} ms, longest {line.longest_ms(0, first):.3f}")
    for label, begin, end in [*line.moves, ("reload from the host", reloaded, reloaded)]:
        print(f"{label}: {end - begin:.3f} s, longest layer {line.longest_ms(begin, begin + 1):.3f} ms, lost in a second "
              f"{line.lost_ms(usual, begin, begin + 1):.2f} ms; then {line.median_ms(end, begin + EACH_S):.3f} ms")
    print(f"{int(wrong)} of {len(line.steps)} outputs differ")
    if picture:
        line.draw(picture, f"{MOVING} of {EXPERTS} experts move while their graph replays", "layer [ms]")
    return int(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
