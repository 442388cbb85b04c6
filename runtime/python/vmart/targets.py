"""What memory a Python object stands for.

Anything that can be moved is turned into ranges of addresses: allocations of vmart, tensors,
parameters, modules and optimizers of PyTorch, arrays of CuPy, Numba, NumPy and JAX, buffers of cuda.core,
tags, addresses, and lists, tuples, sets and dictionaries of them. A library is looked at only if the
program has imported it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from vmart import _core
from vmart.errors import InvalidArgument, UnknownPointer

__all__ = ["Range", "find", "ranges_of"]


class Range(NamedTuple):
    """Bytes of an object, as addresses. `nbytes` is 0 for a bare address: its whole allocation."""

    begin: int
    nbytes: int


def ranges_of(what: Any) -> list[Range]:
    """The memory of `what`, each range once, in the order in which it is met.

    A tensor or array stands for its whole storage: what it shares memory with is part of it.
    Raises `InvalidArgument` for an object that has no memory of a known kind, and for a tag that no
    allocation has.
    """
    return list(dict.fromkeys(_walk(what, frozenset())))


def find(memory: Range) -> _core.AllocationInfo:
    """The allocation that contains the range. Raises `UnknownPointer` with what to do."""
    try:
        return _core.allocation(memory.begin)
    except UnknownPointer as error:
        raise UnknownPointer(
            f"{error}. Only memory that vmart allocated can move: make PyTorch tensors inside "
            "`with vmart.torch.memory(...)`, CuPy and Numba arrays after `vmart.cupy.use()` or "
            "`vmart.numba.use()`, buffers by `vmart.MemoryResource`, others by `vmart.empty`",
            error.call,
        ) from None


def _walk(what: Any, seen: frozenset[int]) -> Iterator[Range]:
    if id(what) in seen:  # A list that contains itself.
        return
    if isinstance(what, str):
        yield from _tagged(what)
    elif isinstance(what, Range):
        yield what
    elif isinstance(what, (bytes, bytearray, memoryview)):
        raise InvalidArgument(
            f"{type(what).__name__}: pass the allocation or array, and not its bytes", "vmart"
        )
    elif isinstance(what, int):
        yield Range(what, 0)
    elif (torch_ranges := _torch_ranges(what)) is not None:
        yield from torch_ranges
    elif (other_ranges := _buffer_ranges(what)) is not None:
        yield from other_ranges
    elif (array_ranges := _array_ranges(what)) is not None:
        yield from array_ranges
    elif isinstance(what, Mapping):
        yield from _each(what.values(), seen | {id(what)})
    elif isinstance(what, Iterable):
        yield from _each(what, seen | {id(what)})
    else:
        raise InvalidArgument(
            f"{type(what).__name__} has no memory that vmart knows of: pass an allocation, tensor, "
            "module, optimizer, array, address, tag, or a list of them",
            "vmart",
        )


def _each(parts: Iterable[Any], seen: frozenset[int]) -> Iterator[Range]:
    for part in parts:
        yield from _walk(part, seen)


def _tagged(tag: str) -> Iterator[Range]:
    found = [info for info in _core.allocations() if info.tag == tag]
    if not found:
        raise InvalidArgument(f'no allocation has the tag "{tag}"', "vmart")
    for info in found:
        yield Range(info.pointer, info.nbytes)


def _torch_ranges(what: Any) -> list[Range] | None:
    """None if it is nothing of PyTorch. Tensors without memory (meta, empty) have no ranges."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if isinstance(what, torch.Tensor):
        tensors = [what]
    elif isinstance(what, (torch.UntypedStorage, torch.TypedStorage)):
        return [Range(what.data_ptr(), what.nbytes())] if what.nbytes() else []
    elif isinstance(what, torch.nn.Module):
        tensors = [*what.parameters(), *what.buffers()]
    elif isinstance(what, torch.optim.Optimizer):
        tensors = _optimizer_tensors(what, torch)
    else:
        return None
    ranges = []
    for tensor in tensors:
        if tensor.layout != torch.strided:
            raise InvalidArgument(
                f"a tensor of layout {tensor.layout} has several storages: pass its parts", "vmart"
            )
        storage = tensor.untyped_storage()
        if storage.nbytes() > 0 and storage.data_ptr() != 0:
            ranges.append(Range(storage.data_ptr(), storage.nbytes()))
    return ranges


def _optimizer_tensors(optimizer: Any, torch: Any) -> list[Any]:
    """The states of an optimizer, without its parameters. Counters of steps, which PyTorch keeps on
    the CPU, are left out."""
    return [
        value
        for state in optimizer.state.values()
        for value in _tensors_in(state, torch)
        if value.numel() > 1 or value.device.type != "cpu"
    ]


def _tensors_in(state: Any, torch: Any) -> Iterator[Any]:
    """Some optimizers keep lists or dictionaries of tensors (LBFGS)."""
    if isinstance(state, torch.Tensor):
        yield state
    elif isinstance(state, Mapping):
        for part in state.values():
            yield from _tensors_in(part, torch)
    elif isinstance(state, (list, tuple)):
        for part in state:
            yield from _tensors_in(part, torch)


def _buffer_ranges(what: Any) -> list[Range] | None:
    """Of a buffer of cuda.core, or the parts of a JAX array. None if it is neither."""
    buffer = getattr(sys.modules.get("cuda.core"), "Buffer", None)  # Not in early versions.
    if buffer is not None and isinstance(what, buffer):
        if what.is_closed:
            raise InvalidArgument("the buffer is closed", "vmart")
        return [Range(int(what.handle), what.size)] if what.size else []
    array = getattr(sys.modules.get("jax"), "Array", None)
    if array is not None and isinstance(what, array):
        parts = [shard.data for shard in what.addressable_shards if shard.data.nbytes]
        return [Range(part.unsafe_buffer_pointer(), part.nbytes) for part in parts]
    return None


def _array_ranges(what: Any) -> list[Range] | None:
    """The memory from an array's first byte to its last. None if it is no array."""
    pointer = getattr(what, "pointer", None)
    if isinstance(pointer, int) and hasattr(what, "nbytes"):  # An allocation or array of vmart.
        return [Range(pointer, what.nbytes)] if what.nbytes else []
    for name in ("__cuda_array_interface__", "__array_interface__"):
        interface = getattr(what, name, None)
        if isinstance(interface, Mapping):
            return [] if 0 in interface["shape"] else [_span(interface)]
    return None


def _span(interface: Mapping[str, Any]) -> Range:
    begin = interface["data"][0]
    item = int(interface["typestr"][2:])
    shape = interface["shape"]
    strides = interface.get("strides")
    if strides is None:
        return Range(begin, item * math.prod(shape))
    steps = [stride * (count - 1) for stride, count in zip(strides, shape)]
    first = begin + sum(step for step in steps if step < 0)
    last = begin + sum(step for step in steps if step > 0) + item
    return Range(first, last - first)
