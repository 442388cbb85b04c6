"""A small transformer for the PyTorch programs. The same weights for each seed."""

import torch
from torch import nn

WIDTH, HEADS, WORDS, TOKENS, BATCH = 512, 8, 4096, 128, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part.view(*part.shape[:-1], HEADS, -1).transpose(1, 2)
                   for part in self.qkv(self.norms[0](x)).chunk(3, dim=-1))
        scores = (q @ k.transpose(-1, -2)) * (WIDTH // HEADS) ** -0.5
        mixed = scores.softmax(-1) @ v
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


class SmallGpt(nn.Module):
    def __init__(self, layers=4):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words):
        # Products instead of look-ups: their backward pass adds in one order.
        every_word = torch.arange(WORDS, device=words.device)
        x = (words[..., None] == every_word).to(self.words.weight.dtype) @ self.words.weight
        return self.head(self.norm(self.blocks(x + self.places.weight[:words.shape[-1]])))


def make(seed, device, layers=4):
    torch.manual_seed(seed)
    return SmallGpt(layers).to(device)


def batch(seed, device):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(WORDS, (BATCH, TOKENS + 1), generator=generator).to(device)


def loss_of(model, words):
    scores = model(words[:, :-1])
    return nn.functional.cross_entropy(scores.reshape(-1, WORDS), words[:, 1:].reshape(-1))


def be_exact():
    """Sums are added in one order, whatever runs beside them."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
