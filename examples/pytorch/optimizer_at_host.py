#!/usr/bin/env python3
"""The states of Adam, twice the size of the parameters, lie at the host: the optimizer's kernels update them
there, in place. Later they move to HBM. The losses are the same to the last bit as with states in HBM.

optimizer_at_host.py [PICTURE.svg]     needs PyTorch, the package vmart and a GPU; exits with 77 without them
"""

import sys

import timeline

torch, vmart = timeline.modules(gpus=1)

WIDTH, LAYERS, BATCH, STEPS = 2048, 8, 4096, 60
FIRST_MOVE = STEPS // 2


class Training:
    def __init__(self, states_at):
        torch.manual_seed(1)
        self.states_at = states_at
        with vmart.torch.memory(tag="model"):
            self.model = torch.nn.Sequential(
                *(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, fused=True)
        self.data = torch.randn(BATCH, WIDTH, device="cuda")

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = (self.model(self.data) - self.data).square().mean()
        loss.backward()
        with vmart.torch.memory(tag="adam", at=self.states_at):  # The first step makes the states.
            self.optimizer.step()
        return loss.detach()

    def states(self):
        return [value for state in self.optimizer.state.values() for value in state.values()
                if torch.is_tensor(value) and value.is_cuda]


def train(line, states_at, move_to=None):
    training = Training(states_at)
    losses = []
    for step in range(STEPS):
        if step == FIRST_MOVE and move_to is not None:
            line.move(f"states to {move_to}", vmart.migrate_async(training.states(), move_to))
        losses.append(line.step(training.step))
    line.wait()
    print(vmart.torch.where(training.optimizer).total)
    return [loss.item() for loss in losses]


def main(picture):
    expected = train(in_hbm := timeline.Timeline(torch), "gpu0")
    losses = train(line := timeline.Timeline(torch), "host0", move_to="gpu0")
    begin, end = line.moves[0][1:]
    print(f"a step with states in HBM {in_hbm.median_ms():.2f} ms, at the host {line.median_ms(0, begin):.2f}, "
          f"back in HBM {line.median_ms(end):.2f}")
    wrong = sum(one != other for one, other in zip(losses, expected))
    print(f"{wrong} of {STEPS} losses differ")
    if picture:
        line.draw(picture, "Adam's states at the host, then in HBM", "a step [ms]")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
