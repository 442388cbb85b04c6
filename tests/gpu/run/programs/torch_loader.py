"""A DataLoader with worker processes and pinned memory feeds a training loop."""

import torch

import rounds
import small_gpt


class Words(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randint(small_gpt.WORDS, (small_gpt.TOKENS + 1,), generator=generator)


def train():
    loader = torch.utils.data.DataLoader(Words(), batch_size=8, num_workers=3, pin_memory=True)
    model = small_gpt.make(11, "cuda", layers=2)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    losses = []
    for words in loader:
        loss = small_gpt.loss_of(model, words.to("cuda", non_blocking=True))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return f"{len(losses)} batches {rounds.digest(torch.stack(losses), *model.parameters())}"


if __name__ == "__main__":
    small_gpt.be_exact()
    rounds.repeat(train)
