"""torch.compile: compiled functions on whole numbers, so that sums are exact in any order."""

import torch

import rounds

ROWS = 2048


def work(x, y):
    """Small whole numbers in single precision: nothing is rounded, whatever is fused."""
    product = torch.remainder(x @ y, 7) - 3
    mixed = torch.relu(product + x) - torch.remainder(y, 3)
    return torch.remainder(mixed.cumsum(0), 5) - 2, mixed.sum(1), mixed.amax(0)


def loss(x, weights):
    return ((x @ weights).remainder(5) * weights.sum(0)).sum()


def numbers(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, (ROWS, ROWS), generator=generator).float().cuda()


def one_round(compiled, compiled_loss):
    x, y, parts = numbers(1), numbers(2), []
    for _ in range(6):
        x, sums, largest = compiled(x, y)
        parts += [sums, largest]
    weights = numbers(3)[:, :64].contiguous().requires_grad_()
    compiled_loss(x, weights).backward()
    return rounds.digest(x, *parts, weights.grad)


def main():
    functions = torch.compile(work), torch.compile(loss)
    graphed = torch.compile(work, mode="reduce-overhead")  # CUDA graphs beneath.

    def both():
        x, y = numbers(1), numbers(2)
        torch.compiler.cudagraph_mark_step_begin()
        outputs = [part.clone() for part in graphed(x, y)]
        return f"compiled {one_round(*functions)} graphed {rounds.digest(*outputs)}"

    rounds.repeat(both)


if __name__ == "__main__":  # Compiling starts processes.
    main()
