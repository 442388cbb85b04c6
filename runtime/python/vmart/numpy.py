"""NumPy arrays in memory that GPUs use, and that moves.

The CPU reads and writes them through their pointer, wherever they lie: what lies in HBM comes to the
host by itself when it is touched (docs/guide/cpu_access.md). Kernels, CuPy and PyTorch use the same bytes
without a copy, through `on_gpu`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy

from vmart import _core, memory
from vmart.errors import InvalidArgument
from vmart.place import as_place
from vmart.targets import find, ranges_of

__all__ = ["OnGpu", "empty", "handler", "on_gpu", "zeros"]


def empty(shape: Any, dtype: Any = "float64", at: Any = "host0", **options: Any) -> numpy.ndarray:
    """A NumPy array without contents, in memory of vmart at a place. It moves with `vmart.migrate` and
    by policies; its pointer stays. Options as of `vmart.alloc`; at least one chunk of 2 MiB."""
    return memory.empty(shape, dtype, at, cpu_access="fault", **options).numpy()


def zeros(shape: Any, dtype: Any = "float64", at: Any = "host0", **options: Any) -> numpy.ndarray:
    """As `empty`, filled with zeros."""
    return empty(shape, dtype, at, zeroed=True, **options)


class OnGpu:
    """A NumPy array as libraries of GPUs take it: `cupy.asarray(vmart.numpy.on_gpu(array))`. Keeps the
    array alive. Order work of the GPU and of the CPU as with any memory: synchronise between them."""

    def __init__(self, array: numpy.ndarray) -> None:
        self.array = array

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        interface = self.array.__array_interface__
        return {
            "shape": interface["shape"],
            "typestr": interface["typestr"],
            "data": interface["data"],
            "strides": interface["strides"],
            "stream": None,
            "version": 3,
        }


def on_gpu(array: numpy.ndarray) -> OnGpu:
    """Raises `UnknownPointer` if the array is not in memory of vmart: make it by `empty`, or under
    `handler`."""
    for part in ranges_of(array):
        find(part)
    return OnGpu(array)


@contextlib.contextmanager
def handler(at: Any = "host0", *, least_bytes: int = 1 << 20, tag: str = "numpy") -> Iterator[None]:
    """Within the block, the data of all new NumPy arrays of at least `least_bytes` is memory of vmart,
    also that of results of ufuncs; smaller ones stay NumPy's own. As NumPy's handlers are, it is of
    the current thread or task (NEP 49). Arrays may outlive the block. Their end waits for the GPU
    like cudaFree. In a forked child, new arrays are ordinary memory."""
    if least_bytes < 1:
        raise InvalidArgument(f"least_bytes is {least_bytes}", "vmart.numpy.handler")
    before = _core.set_numpy_handler(_core.make_numpy_handler(as_place(at), least_bytes, tag))
    try:
        yield
    finally:
        _core.set_numpy_handler(before)
