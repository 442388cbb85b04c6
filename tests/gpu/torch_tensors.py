#!/usr/bin/env python3
"""With vmart as PyTorch's only allocator a model trains as with PyTorch's own: the losses are the same to
the last bit, and tensors share chunks.

torch_tensors.py LIBVMART.SO EXAMPLES     leaves with 77 without PyTorch and a GPU
"""

import ctypes
import os
import subprocess
import sys

EXIT_SKIPPED = 77
STEPS = 40


def train(torch):
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64),
                                torch.nn.LayerNorm(64), torch.nn.Linear(64, 1)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.randn(512, 64, device="cuda")
    losses = []
    for _ in range(STEPS):
        loss = (model(data) - data.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return losses


def main(library, own):
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    try:
        import torch
    except ImportError:
        return EXIT_SKIPPED
    if not torch.cuda.is_available():
        return EXIT_SKIPPED
    if own:
        print(train(torch))
        return 0
    # A process can change its allocator only before its first tensor.
    right = subprocess.run([sys.executable, "-B", __file__, library, "own"], check=True,
                           capture_output=True, text=True).stdout.strip()
    memory = torch.cuda.memory
    memory.change_current_allocator(memory.CUDAPluggableAllocator(
        library, "vmart_torch_malloc_async", "vmart_torch_free_async"))
    assert str(train(torch)) == right, "the losses differ"
    tensors = [torch.zeros(8, device="cuda") for _ in range(64)]
    place = (ctypes.c_int * 2)(-1, -1)  # A vmart_place.
    assert ctypes.CDLL(library).vmart_where(ctypes.c_void_p(tensors[0].data_ptr()), place) == 0
    assert list(place) == [0, 0], f"the tensor lies at {list(place)}"
    chunks = {tensor.data_ptr() >> 21 for tensor in tensors}
    assert len(chunks) < len(tensors) // 4, f"{len(tensors)} small tensors lie in {len(chunks)} chunks"
    print(f"{STEPS} losses are equal; {len(tensors)} small tensors lie in {len(chunks)} chunks")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:] == ["own"]))
