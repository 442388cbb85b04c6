"""Memory that Python objects own."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

from vmart import _core
from vmart._core import Allocation, Pool
from vmart.errors import InvalidArgument
from vmart.places import location

__all__ = ["Allocation", "Array", "Pool", "alloc", "default_pool", "empty", "make_pool"]


def alloc(
    nbytes: int,
    at: Any = None,
    *,
    readers: Iterable[Any] = (),
    tag: str = "",
    chunk_bytes: int = 0,
    zeroed: bool = False,
    movable: bool = True,
    shared_atomics: bool = False,
    exportable: bool = False,
    pool: bool = False,
    cpu_access: str = "view",
) -> Allocation:
    """Allocates memory at a place; without one, on the GPU of the current context. It is freed with
    the last object that refers to it, or by `free()`, which wait for the GPU like cudaFree.

    Sizes are rounded up to whole chunks; `chunk_bytes` is the unit that moves (0: chosen by size),
    `pool=True` takes small memory from a pool. With `cpu_access="fault"`, the CPU may touch the memory at
    any time: what lies in HBM comes to the host by itself. The other options are those of `vma::AllocOptions`.
    Raises `OutOfMemory`, `InvalidArgument`. Blocks for memory, without the GIL.
    """
    if cpu_access not in ("view", "fault"):
        raise InvalidArgument(f'cpu_access is "{cpu_access}"; it may be "view" or "fault"', "vmart.alloc")
    return _core.alloc(
        nbytes,
        None if at is None else location(at),
        [location(reader) for reader in readers],
        tag=tag,
        chunk_bytes=chunk_bytes,
        zeroed=zeroed,
        movable=movable,
        shared_atomics=shared_atomics,
        exportable=exportable,
        pool=pool,
        cpu_faults=cpu_access == "fault",
    )


def empty(shape: int | Sequence[int], dtype: Any = "float32", at: Any = None, **options: Any) -> Array:
    """An array in memory of vmart, without contents. `dtype` is anything that NumPy takes; NumPy is not
    needed for names such as "float32" or "<f4". Options as of `alloc`."""
    sizes = shape if isinstance(shape, Iterable) else (shape,)
    dimensions = tuple(operator.index(size) for size in sizes)
    if any(size < 0 for size in dimensions):
        raise InvalidArgument(f"the shape is {dimensions}", "vmart.empty")
    typestr = _typestr(dtype)
    nbytes = int(typestr[2:]) * math.prod(dimensions)
    return Array(alloc(max(nbytes, 1), at, **options), dimensions, typestr)


class Array:
    """An array over an allocation, for libraries that read `__cuda_array_interface__` (CuPy, Numba,
    PyTorch) or DLPack. They see memory of a GPU, wherever it lies: kernels reach it there.

    `numpy()` shows it to the CPU.
    """

    def __init__(
        self, allocation: Allocation, shape: Sequence[int], typestr: str, offset: int = 0
    ) -> None:
        self.allocation = allocation
        self.shape = tuple(shape)
        self.typestr = typestr
        self.offset = offset
        if offset < 0 or min(self.shape, default=0) < 0 or offset + self.nbytes > allocation.nbytes:
            raise InvalidArgument(
                f"{self.nbytes} bytes from offset {offset} on exceed the allocation's "
                f"{allocation.nbytes}",
                "vmart.Array",
            )

    @property
    def nbytes(self) -> int:
        return int(self.typestr[2:]) * math.prod(self.shape)

    @property
    def pointer(self) -> int:
        return self.allocation.pointer + self.offset

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.typestr,
            "data": (self.pointer, False),
            "strides": None,
            "stream": None,
            "version": 3,
        }

    def numpy(self) -> Any:
        """A NumPy array over the same bytes. With `cpu_access="fault"` they may lie anywhere and move.
        Otherwise they have to lie at host nodes, and do not move while it exists; raises `Unsupported`
        if bytes lie in HBM: migrate them to the host first."""
        return self._array(None)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """For NumPy's functions; as `numpy()`."""
        import numpy

        shown = self.numpy()
        return numpy.array(shown, dtype, copy=True) if copy else shown.astype(dtype or shown.dtype, copy=False)

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        """For a GPU; for the CPU (`dl_device=(1, 0)`) as `numpy()`. `stream` needs nothing: the caller
        orders its own work. Raises `BufferError` for another device, and for a copy."""
        if copy:
            raise BufferError("vmart makes no copies for DLPack: copy what you get")
        if dl_device is not None and tuple(dl_device) == (1, 0):
            return self.numpy().__dlpack__()
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"{dl_device} is not the device {self.__dlpack_device__()} of the array")
        return self._array(self._gpu()).__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self._gpu())  # kDLCUDA

    def free(self) -> None:
        self.allocation.free()

    def _array(self, gpu: int | None) -> Any:
        return self.allocation.array(
            self.shape, self.typestr[1], 8 * int(self.typestr[2:]), self.offset, gpu
        )

    def _gpu(self) -> int:
        """The GPU where its first byte lies, or else the first one."""
        at = _core.allocation(self.pointer).extents[0].at
        return at.ordinal if at.kind == "gpu" else 0

    def __repr__(self) -> str:
        return f"<vmart.Array of shape {self.shape}, {self.typestr}, at {self.pointer:#x}>"


_NAMES = {
    "bool": "|b1", "int8": "|i1", "uint8": "|u1", "int16": "<i2", "uint16": "<u2", "int32": "<i4",
    "uint32": "<u4", "int64": "<i8", "uint64": "<u8", "float16": "<f2", "float32": "<f4",
    "float64": "<f8", "complex64": "<c8", "complex128": "<c16",
}  # fmt: skip


def _typestr(dtype: Any) -> str:
    if isinstance(dtype, str) and dtype in _NAMES:
        return _NAMES[dtype]
    import numpy

    typestr = numpy.dtype(dtype).str
    if typestr[1] not in "biufc" or typestr[0] == ">":
        raise InvalidArgument(f"elements of type {dtype} are not supported", "vmart.empty")
    return typestr


def make_pool(at: Any, *, tag: str = "pool", **options: Any) -> Pool:
    """A pool at a place. Options: `release_threshold`, `max_bytes`, `chunk_bytes`, `streams_last`,
    `exportable`; see `vma::PoolOptions`."""
    return _core.make_pool(location(at), tag=tag, **options)


def default_pool(at: Any) -> Pool:
    """The pool that exists at each place from the start."""
    return _core.default_pool(location(at))
