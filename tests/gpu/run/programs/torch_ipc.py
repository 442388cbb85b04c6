"""A process sends tensors on GPUs to another one, which writes to them and sends some of its own."""

import sys

import torch
import torch.multiprocessing as processes

import rounds

SIZES = (1 << 18, 3 << 20, 9 << 20)  # Floats: 1 MiB is a part of a larger block, the others are not.
LIMIT_S = 120


def serve(requests, answers):
    """Answers each list of tensors with one that it keeps until the next, and with a digest."""
    kept = None
    while (sent := requests.get()) is not None:
        for number, tensor in enumerate(sent):
            tensor.mul_(number + 2)
        kept = torch.cat(sent).mul_(5).add_(1).remainder_(1021)
        torch.cuda.synchronize()
        answers.put((kept, rounds.digest(kept)))
        del sent


def exchange(requests, answers):
    own = torch.full((16 << 20,), 3.0, device="cuda")  # Nobody else sees it.
    sent = [torch.arange(size, device="cuda", dtype=torch.float32).remainder_(97) for size in SIZES]
    torch.cuda.synchronize()
    requests.put(sent)
    theirs, digest = answers.get(timeout=LIMIT_S)
    parts = [rounds.digest(theirs), digest, *(rounds.digest(tensor) for tensor in sent)]
    parts.append(rounds.digest(own.add_(1)))
    return " ".join(parts)


def main():
    context = processes.get_context("spawn")
    requests, answers = context.Queue(), context.Queue()
    other = context.Process(target=serve, args=(requests, answers), daemon=True)
    other.start()
    rounds.repeat(lambda: exchange(requests, answers))
    requests.put(None)
    other.join(LIMIT_S)
    if other.exitcode != 0:
        sys.exit(f"the other process ended with {other.exitcode}")


if __name__ == "__main__":
    main()
