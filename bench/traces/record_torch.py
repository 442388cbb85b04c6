#!/usr/bin/env python3
"""record_torch.py FOLDER: records the samples of the formats torch_snapshot, torch_profile and experts on one GPU, with
PyTorch 2.11: a step of training of a small transformer, and a small mixture of experts that learns the documentation of
vmart letter by letter and then continues it. Each is compressed, and as PyTorch gives it; but of the profiler's events,
only those are kept that the importer reads."""

import argparse
import gzip
import json
import pathlib
import pickle
import sys
import tempfile
import traceback

import torch
import torch.nn.functional as F
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPU_EVENTS, LAUNCHES = ("kernel", "gpu_memcpy", "gpu_memset"), ("cuda_runtime", "cuda_driver")
LAYERS, EXPERTS, CHOSEN, WIDTH, CONTEXT = 4, 16, 2, 256, 128
REQUESTS, PROMPT, OUTPUT = 8, 16, 16


def compress(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"{path}: {path.stat().st_size} bytes")


class Training:
    """Steps of a transformer with 2 layers of width 1024, on 8 sequences of 512 tokens."""

    def __init__(self):
        layer = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0)
        self._model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).cuda().bfloat16()
        self._optimizer = torch.optim.AdamW(self._model.parameters(), fused=True)

    def step(self):
        tokens = torch.randn(8, 512, 1024, device="cuda", dtype=torch.bfloat16)
        self._model(tokens).float().square().mean().backward()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()


def record_snapshot(folder):
    training = Training()
    training.step()
    torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=100_000)
    training.step()
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    compress(folder / "torch_snapshot" / "transformer_snapshot.pickle.gz", pickle.dumps(snapshot))


def record_profile(folder):
    training = Training()
    training.step()
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds, profile_memory=True) as profiler:
        training.step()
    with tempfile.TemporaryDirectory() as place:
        path = pathlib.Path(place) / "trace.json"
        profiler.export_chrome_trace(str(path))
        trace = json.loads(path.read_text(encoding="utf-8"))
    events = trace["traceEvents"]
    kernels = {one["args"]["correlation"] for one in events if one.get("cat") in GPU_EVENTS}
    trace["traceEvents"] = [
        one for one in events if one.get("cat") in GPU_EVENTS or one.get("name") == "[memory]"
        or one.get("cat") in LAUNCHES and one.get("args", {}).get("correlation") in kernels]
    compress(folder / "torch_profile" / "transformer_profile.json.gz", json.dumps(trace, indent=0).encode())


class Experts(nn.Module):
    """Of each token, `CHOSEN` experts. `chosen` are those of the last pass."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
                                     for _ in range(EXPERTS))

    def forward(self, tokens):
        likely = self.router(tokens).softmax(-1)
        weights, self.chosen = likely.topk(CHOSEN, -1)
        share = F.one_hot(self.chosen, EXPERTS).float().mean((0, 1, 2))
        self.imbalance = EXPERTS * (share * likely.mean((0, 1))).sum()
        result = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            part = (weights * (self.chosen == number)).sum(-1, keepdim=True)
            result = result + part * expert(tokens)
        return result


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.experts = Experts()

    def forward(self, tokens):
        length = tokens.shape[1]
        mask = torch.full((length, length), float("-inf"), device=tokens.device).triu(1)
        normal = self.before(tokens)
        tokens = tokens + self.attention(normal, normal, normal, attn_mask=mask, need_weights=False)[0]
        return tokens + self.experts(self.after(tokens))


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters, self.places = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.out = nn.Linear(WIDTH, 256)

    def forward(self, text):
        tokens = self.letters(text) + self.places(torch.arange(text.shape[1], device=text.device))
        for layer in self.layers:
            tokens = layer(tokens)
        return self.out(tokens)


def trained_mixture(text, steps, device):
    model = Mixture().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        begins = torch.randint(len(text) - CONTEXT - 1, (32,))
        batch = torch.stack([text[one:one + CONTEXT + 1] for one in begins]).to(device)
        wrong = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        (wrong + 0.01 * sum(one.experts.imbalance for one in model.layers)).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 100 == 0 or step == steps - 1:
            print(f"step {step}: {wrong.item():.2f}")
    return model


@torch.no_grad()
def routes_of(model, text, device):
    """As a server does it that batches requests: all prompts in one pass, then a token of each request a pass."""
    begins = torch.randint(len(text) - PROMPT, (REQUESTS,))
    tokens = torch.stack([text[one:one + PROMPT] for one in begins]).to(device)
    lines = [{"type": "meta", "model": "small mixture of experts, trained on vmart's documentation", "layers": LAYERS,
              "num_experts": EXPERTS, "top_k": CHOSEN, "torch_version": torch.__version__}]
    done = 0
    for _ in range(OUTPUT):
        following = model(tokens)[:, -1].softmax(-1).multinomial(1)
        for number, layer in enumerate(model.layers):
            chosen = layer.experts.chosen.tolist()
            lines += [{"type": "route", "req_id": f"r{request}", "token_idx": token, "layer": number,
                       "topk_ids": chosen[request][token]}
                      for request in range(REQUESTS) for token in range(done, tokens.shape[1])]
        done = tokens.shape[1]
        tokens = torch.cat([tokens, following], 1)
    return lines


def record_routes(folder, steps=400, device="cuda"):
    pages = "".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").rglob("*.md")))
    text = torch.tensor(list(pages.encode()), dtype=torch.long)
    lines = routes_of(trained_mixture(text, steps, device), text, device)
    compress(folder / "experts" / "mixture_routes.jsonl.gz",
             "".join(json.dumps(one) + "\n" for one in lines).encode())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    torch.manual_seed(1)
    print(torch.__version__, torch.cuda.get_device_name())
    failed = False
    for record in (record_snapshot, record_profile, record_routes):
        try:
            record(folder)
        except Exception:  # The others are worth having: GPUs are hired by the minute.
            traceback.print_exc()
            failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main())
