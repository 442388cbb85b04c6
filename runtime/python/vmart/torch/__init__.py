"""PyTorch's memory in vmart: tensors that move while PyTorch uses them, and whose `data_ptr()` stays.

    with vmart.torch.memory(tag="experts"):
        experts = [Expert().cuda() for _ in range(64)]
    vmart.migrate(experts[:32], "gpu1")
    print(vmart.torch.where(experts))

`tensor.device` is the GPU whose kernels use the tensor. It does not change when the memory moves.
Written for PyTorch 2.11 to 2.15.
"""

from vmart.torch.pools import graph, memory, outside, place_by_size, release
from vmart.torch.streams import AttachedStreams, attach_streams
from vmart.torch.tables import Row, Table, where

__all__ = [
    "AttachedStreams", "Row", "Table", "attach_streams", "graph", "memory", "outside",
    "place_by_size", "release", "where",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name == "memory_saver":
        import importlib

        return importlib.import_module("vmart.torch.memory_saver")
    raise AttributeError(f"module 'vmart.torch' has no attribute '{name}'")
