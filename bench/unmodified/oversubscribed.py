#!/usr/bin/env python3
"""Inference with a transformer in PyTorch that knows nothing of vmart. Prints one line of JSON.

    oversubscribed.py [--shapes 8x128,64x1] [--seconds S] [--offload-above BYTES] [--layers N] [--width N]

Each shape is a number of sequences and of tokens in each: the more tokens, the more arithmetic for each byte
of weights. Prints the tokens of each shape a second, once they have settled, a digest of the outputs, and
how much memory PyTorch used. With --offload-above, `accelerate` keeps so much of the weights on the GPU, and
copies the others from the host whenever they are used. By default, the weights take 20 GiB.
"""

import argparse
import hashlib
import json
import statistics
import time

import torch
from gpt_loops import Block, Gpt
from torch import nn

WORDS, HEAD_WIDTH = 16_384, 128


def make(arguments):
    """The same weights wherever they lie: each is made on the device from a seed of its own."""
    with torch.device("meta"):
        model = Gpt(arguments.layers, arguments.width, max(1, arguments.width // HEAD_WIDTH), WORDS)
    model = model.to(torch.bfloat16).eval()
    places = device_map(model, arguments.offload_above) if arguments.offload_above else {"": 0}
    generator = torch.Generator(arguments.device)
    for number, (name, shape) in enumerate([(name, one.shape) for name, one in model.named_parameters()]):
        generator.manual_seed(number)
        weight = torch.empty(shape, dtype=torch.bfloat16, device=arguments.device)
        weight.normal_(1.0 if "norm" in name and name.endswith("weight") else 0.0, 0.02, generator=generator)
        folder, _, leaf = name.rpartition(".")
        place = "cpu" if is_offloaded(name, places) else arguments.device
        setattr(model.get_submodule(folder), leaf, nn.Parameter(weight.to(place), requires_grad=False))
    if arguments.offload_above:
        import accelerate
        model = accelerate.dispatch_model(model, places)
    return model


def device_map(model, bytes_kept):
    """For so many bytes on the GPU. `accelerate` keeps room there for the largest layer beside them."""
    import accelerate
    layer = max(sum(one.nbytes for one in block.parameters()) for block in model.blocks)
    return accelerate.infer_auto_device_map(
        model, {0: bytes_kept + layer, "cpu": 1 << 50}, no_split_module_classes=[Block.__name__])


def is_offloaded(name, places):
    return any(place == "cpu" and f"{name}.".startswith(f"{module}.") for module, place in places.items())


def tokens_a_second(model, words, seconds, wait):
    times, begin = [], time.monotonic()
    while len(times) < 4 or time.monotonic() < begin + seconds:
        started = time.monotonic()
        result = model(words)
        wait()
        times.append(time.monotonic() - started)
    return words.numel() / statistics.median(times[len(times) // 2:]), result


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="8x128,64x1", type=lambda text: text.split(","))
    parser.add_argument("--seconds", type=float, default=4, help="of each shape")
    parser.add_argument("--offload-above", type=int)
    parser.add_argument("--layers", type=int, default=34)
    parser.add_argument("--width", type=int, default=5120)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    has_gpu = arguments.device == "cuda"
    digest, rates = hashlib.sha256(), {}
    torch.manual_seed(1)
    with torch.no_grad():
        model = make(arguments)
        for shape in arguments.shapes:
            words = torch.randint(WORDS, [int(part) for part in shape.split("x")]).to(arguments.device)
            rates[shape], result = tokens_a_second(model, words, arguments.seconds,
                                                   torch.cuda.synchronize if has_gpu else lambda: None)
            digest.update(result.contiguous().view(torch.uint8).cpu().numpy().tobytes())
    print(json.dumps({"tokens_s": rates, "digest": digest.hexdigest(),
                      "weights_bytes": sum(one.nbytes for one in model.parameters()),
                      "peak_bytes": torch.cuda.max_memory_allocated() if has_gpu else 0,
                      "reserved_bytes": torch.cuda.max_memory_reserved() if has_gpu else 0}))


if __name__ == "__main__":
    main()
