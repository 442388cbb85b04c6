#!/usr/bin/env python3
"""A model trains while its weights move to another GPU and back, and the losses stay the same to the
last bit.

torch_pool.py LIBVMART.SO     needs PyTorch and two GPUs; leaves with 77 where they are not
"""

import ctypes
import os
import sys

EXIT_SKIPPED = 77
STEPS, MOVES = 400, {50: 1, 200: 0}  # At which step, to which GPU.

for variable in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
    os.environ.pop(variable, None)  # cudaMallocAsync has no MemPool, and older versions want no expandable segments.
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # Products come out the same each time.
try:
    import torch
except ImportError:
    torch = None


class Place(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("ordinal", ctypes.c_int)]

    def __str__(self):
        return f"{('gpu', 'host')[self.kind]}({self.ordinal})"


class Vmart:
    """The C calls of <vma/vmart.h> that are used here, and a pool of PyTorch's whose segments move."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.vmart_last_error.restype = ctypes.c_char_p
        memory = torch.cuda.memory
        self.allocator = memory.CUDAPluggableAllocator(path, "vmart_torch_malloc", "vmart_torch_free")
        self.pool = torch.cuda.MemPool(self.allocator.allocator())

    def call(self, name, *arguments):
        if getattr(self.library, name)(*arguments) != 0:
            raise RuntimeError(self.library.vmart_last_error().decode())

    def attach(self, stream):
        self.call("vmart_attach", ctypes.c_void_p(stream.cuda_stream))

    def detach(self, stream):
        self.call("vmart_detach", ctypes.c_void_p(stream.cuda_stream))

    def where(self, tensor):
        at = Place()
        self.call("vmart_where", ctypes.c_void_p(tensor.data_ptr()), ctypes.byref(at))
        return str(at)

    def start_move(self, tensor, gpu, options=None):
        """`options`: a `vmart_migrate_options` of <vma/vmart.h>."""
        migration = ctypes.c_void_p()
        self.call("vmart_migrate_async", ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(0),
                  ctypes.c_size_t(tensor.nbytes), Place(0, gpu),
                  None if options is None else ctypes.byref(options), ctypes.byref(migration))
        return migration

    def wait(self, migration):
        if migration is None:
            return
        try:
            self.call("vmart_migration_wait", migration)
        finally:
            self.library.vmart_migration_release(migration)

    def close(self):
        """Requires: no tensor of the pool lives. The pool needs its allocator until it has gone."""
        del self.pool
        del self.allocator


def train(vmart, move):
    """The loss of every step; `move` sends the first weights to GPU 1 and back on the way."""
    torch.manual_seed(1)
    stream = torch.cuda.current_stream()
    with torch.cuda.use_mem_pool(vmart.pool):
        model = torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.ReLU(),
                                    torch.nn.Linear(2048, 2048)).cuda()
    weights = model[0].weight  # 16 MiB: a segment of its own.
    inputs, wanted = torch.randn(256, 2048).cuda(), torch.randn(256, 2048).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses, migration = [], None
    vmart.attach(stream)
    for step in range(STEPS):
        if move and step in MOVES:
            vmart.wait(migration)
            print(f"step {step}: the weights lie at {vmart.where(weights)}, for GPU {MOVES[step]}")
            migration = vmart.start_move(weights, MOVES[step])  # And the training goes on.
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    vmart.wait(migration)
    print(f"end: the weights lie at {vmart.where(weights)}")
    vmart.detach(stream)
    return torch.stack(losses).cpu()


def main(arguments):
    if torch is None or torch.cuda.device_count() < 2:
        print("skipped: this needs PyTorch and two GPUs")
        return EXIT_SKIPPED
    torch.use_deterministic_algorithms(True)
    torch.zeros(1, device="cuda")  # Makes GPU 0's primary context this thread's.
    vmart = Vmart(arguments[0])
    still, moved = train(vmart, move=False), train(vmart, move=True)
    vmart.close()
    same = torch.equal(still, moved)
    print(f"loss {still[0]:.4f} to {still[-1]:.4f}; moved or not, the losses are "
          f"{'the same' if same else 'DIFFERENT'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
