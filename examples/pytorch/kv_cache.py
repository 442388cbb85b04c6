#!/usr/bin/env python3
"""The key-value caches of conversations that wait for their users go to the host, and come back with the next
message. Decoding goes on meanwhile, and each token is the same, to the last bit, as when nothing moves.

kv_cache.py [PICTURE.svg]     needs PyTorch, the package vmart and a GPU; exits with 77 without them
"""

import sys

import timeline

torch, vmart = timeline.modules(gpus=1)
from torch.nn.attention import SDPBackend, sdpa_kernel

CONVERSATIONS, HEADS, LENGTH, WIDTH = 8, 32, 16384, 128  # 256 MiB of keys and values each in bfloat16.
ACTIVE, TURNS, TOKENS = 4, 6, 60  # Conversations at a time; each turn decodes so many tokens for them.


class Conversation:
    def __init__(self, number):
        with vmart.torch.memory(tag=f"conversation {number}", no_split=True):
            self.cache = torch.empty(2, 1, HEADS, LENGTH, WIDTH, device="cuda", dtype=torch.bfloat16)
        self.cache.normal_()
        self.query = torch.randn(1, HEADS, 1, WIDTH, device="cuda", dtype=torch.bfloat16)

    def decode(self):
        keys, values = self.cache
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # That of cuDNN differs from run to run.
            self.query = torch.nn.functional.scaled_dot_product_attention(self.query, keys, values)
        self.query = self.query / self.query.norm(dim=-1, keepdim=True)
        return self.query


def in_hbm(conversations):
    return sum(extent.nbytes for one in conversations for extent in vmart.where(one.cache)
               if extent.at.kind == "gpu") / 2**30


def serve(line, moving):
    """The last token of each conversation in each turn, and the HBM that caches took."""
    torch.manual_seed(1)
    conversations = [Conversation(number) for number in range(CONVERSATIONS)]
    tokens, memory = [], []
    for turn in range(TURNS):
        active = [conversations[(turn * 2 + place) % CONVERSATIONS] for place in range(ACTIVE)]
        if moving:
            line.wait()
            waiting = [one.cache for one in conversations if one not in active]
            line.move("wait", vmart.migrate_async(waiting, "host0"))
            # These decode at once, from host memory, until their caches are back.
            line.move("go on", vmart.migrate_async([one.cache for one in active], "gpu0"))
        for _ in range(TOKENS):
            line.step(lambda: [one.decode() for one in active])
            memory.append((line.now(), in_hbm(conversations)))
        tokens += [one.query.clone() for one in active]
    line.wait()
    return tokens, memory


def main(picture):
    expected, _ = serve(timeline.Timeline(torch), moving=False)
    line = timeline.Timeline(torch)
    tokens, memory = serve(line, moving=True)
    wrong = sum(not torch.equal(one, other) for one, other in zip(tokens, expected))
    print(f"a token of {ACTIVE} conversations: median {line.median_ms():.3f} ms, longest {line.longest_ms():.3f}")
    print(f"caches in HBM: {max(gib for _, gib in memory):.2f} GiB at most, {memory[-1][1]:.2f} in the end")
    print(f"{wrong} of {len(tokens)} tokens differ")
    if picture:
        line.draw(picture, "Caches of conversations that wait lie at the host", "a token [ms]",
                  [("HBM [GiB]", memory)])
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
