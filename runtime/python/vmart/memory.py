"""Memory that Python objects own."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from vmart import _core, arguments
from vmart._core import Allocation, Pool, PoolStats
from vmart.elements import ElementType, element_type
from vmart.errors import InvalidArgument, Unsupported
from vmart.place import as_place
from vmart.reprs import bytes_text, places_text

__all__ = ["Allocation", "Array", "Pool", "PoolStats", "alloc", "default_pool", "empty", "make_pool"]


def alloc(
    nbytes: int | str,
    at: Any = None,
    *,
    readers: Iterable[Any] = (),
    tag: str = "",
    chunk_bytes: int | str = 0,
    zeroed: bool = False,
    movable: bool = True,
    shared_atomics: bool = False,
    exportable: bool = False,
    pool: bool = False,
    cpu_access: str = "view",
) -> Allocation:
    """Allocates memory at a place; without one, on the GPU of the current context. It is freed with
    the last object that refers to it, or by `free()`, which wait for the GPU like cudaFree.

    Sizes are numbers of bytes, or texts such as "64MiB". They are rounded up to whole chunks; `chunk_bytes` is the unit that moves, in whole steps of 2 MiB (0: chosen by size),
    `pool=True` takes small memory from a pool. With `cpu_access="fault"`, the CPU may touch the memory at
    any time: what lies in HBM comes to the host by itself. The other options are those of `vma::AllocOptions`.
    Raises `OutOfMemory`, `InvalidArgument`. Blocks for memory, without the GIL.
    """
    call = "vmart.alloc"
    arguments.choice(cpu_access, "cpu_access", call, ("view", "fault"))
    if isinstance(readers, str):
        readers = (readers,)
    return _core.alloc(
        arguments.size(nbytes, "nbytes", call, least=1),
        None if at is None else as_place(at),
        [as_place(reader) for reader in readers],
        tag=arguments.text(tag, "tag", call),
        chunk_bytes=arguments.size(chunk_bytes, "chunk_bytes", call),
        zeroed=arguments.flag(zeroed, "zeroed", call),
        movable=arguments.flag(movable, "movable", call),
        shared_atomics=arguments.flag(shared_atomics, "shared_atomics", call),
        exportable=arguments.flag(exportable, "exportable", call),
        pool=arguments.flag(pool, "pool", call),
        cpu_faults=cpu_access == "fault",
    )


def empty(shape: int | Sequence[int], dtype: Any = "float32", at: Any = None, **options: Any) -> Array:
    """An array in memory of vmart, without contents. `dtype` is anything that NumPy takes, or "bfloat16",
    "float8_e4m3fn" and the other types of ml_dtypes; names need neither library. Options as of `alloc`."""
    elements = element_type(dtype)
    dimensions = _dimensions(shape, "vmart.empty")
    nbytes = elements.nbytes * math.prod(dimensions)
    return Array(alloc(max(nbytes, 1), at, **options), dimensions, elements)


def _dimensions(shape: Any, call: str) -> tuple[int, ...]:
    sizes = shape if isinstance(shape, Iterable) and not isinstance(shape, str) else (shape,)
    try:
        dimensions = tuple(operator.index(size) for size in sizes)
    except TypeError:
        raise TypeError(f"{call}: shape is {shape!r}; it may be an int or a tuple of ints") from None
    if any(size < 0 for size in dimensions):
        raise InvalidArgument(f"{call}: shape is {shape}; no dimension may be negative", call)
    return dimensions


class Array:
    """An array over an allocation, for libraries that read `__cuda_array_interface__` (CuPy, Numba,
    PyTorch) or DLPack. They see memory of a GPU, wherever it lies: kernels reach it there.

    The CPU may touch it if it lies at a host node, or anywhere with `cpu_access="fault"`: `array[...]`
    reads and writes by the rules of NumPy, and `numpy()` shows all of it. `allocation.write` and
    `allocation.read_into` copy from and to any place.
    """

    def __init__(
        self, allocation: Allocation, shape: int | Sequence[int], dtype: Any, offset: int = 0
    ) -> None:
        self.allocation = allocation
        self.shape = _dimensions(shape, "vmart.Array")
        self.elements: ElementType = element_type(dtype)
        self.offset = arguments.integer(offset, "offset", "vmart.Array")
        if self.offset + self.nbytes > allocation.nbytes:
            raise InvalidArgument(
                f"{self.nbytes} bytes from offset {offset} on exceed the allocation's "
                f"{allocation.nbytes}",
                "vmart.Array",
            )

    @property
    def dtype(self) -> Any:
        """As a type of NumPy; needs NumPy, and ml_dtypes for its types."""
        return self.elements.of_numpy()

    @property
    def typestr(self) -> str:
        return self.elements.typestr

    @property
    def itemsize(self) -> int:
        return self.elements.nbytes

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array of no dimensions has no length")
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        return self.elements.nbytes * self.size

    @property
    def pointer(self) -> int:
        return self.allocation.pointer + self.offset

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.elements.only_dlpack:  # Its typestr would be that of bytes without a meaning.
            raise AttributeError(f"{self.elements.name} has no __cuda_array_interface__: use DLPack")
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
        if bytes lie in HBM."""
        dtype = self.elements.of_numpy()
        try:
            shown = self._array(None)
        except Unsupported as error:
            place = places_text(_core.allocation(self.pointer).extents)
            raise Unsupported(
                f"the array lies at {place}, where the CPU cannot touch it: move it by "
                'vmart.migrate(array, "host0"), copy it by array.allocation.read_into(buffer), or make it '
                'with cpu_access="fault"',
                error.call,
            ) from None
        return shown if shown.dtype == dtype else shown.view(dtype)

    def __getitem__(self, index: Any) -> Any:
        """By the rules of NumPy: a part is a view, which keeps memory without `cpu_access="fault"` where
        it is. Raises `Unsupported` as `numpy()` does."""
        return self.numpy()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.numpy()[index] = value

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """For NumPy's functions; as `numpy()`. Raises `ValueError` where `copy=False` would need a copy."""
        import numpy

        shown = self.numpy()
        if copy is False and dtype is not None and numpy.dtype(dtype) != shown.dtype:
            raise ValueError(
                f"an array of {shown.dtype} cannot be one of {numpy.dtype(dtype)} without a copy: leave out copy=False"
            )
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
        kind = self.elements.kind_of_cpu if gpu is None else self.elements.kind
        return self.allocation.array(self.shape, kind, 8 * self.elements.nbytes, self.offset, gpu)

    def _gpu(self) -> int:
        """The GPU where its first byte lies, or else the first one."""
        at = _core.allocation(self.pointer).extents[0].at
        return at.ordinal if at.kind == "gpu" else 0

    def __repr__(self) -> str:
        return f"<vmart.Array of shape {self.shape}, {self.elements.name}, {_place_of(self.allocation)}>"


def _place_of(allocation: Allocation) -> str:
    """Where an allocation lies, and its address; whatever has become of it."""
    if allocation.freed:
        return "freed"
    pointer = allocation.pointer
    try:
        return f"at {places_text(_core.allocation(pointer).extents)}, address {pointer:#x}"
    except RuntimeError:  # The runtime has ended.
        return f"address {pointer:#x}"


def allocation_text(allocation: Allocation) -> str:
    """Its `repr`."""
    return f"<vmart.Allocation of {bytes_text(allocation.nbytes)}, {_place_of(allocation)}>"


def pool_text(pool: Pool) -> str:
    """Its `repr`."""
    try:
        stats = pool.stats()
    except RuntimeError as error:
        return f"<vmart.Pool: {error}>"
    return (
        f"<vmart.Pool: {bytes_text(stats.used_bytes)} used of {bytes_text(stats.reserved_bytes)} reserved>"
    )


_POOL_OPTIONS: dict[str, Callable[[Any, str, str], Any]] = {
    "release_threshold": arguments.size, "max_bytes": arguments.size, "chunk_bytes": arguments.size,
    "streams_last": arguments.flag, "exportable": arguments.flag,
}  # fmt: skip


def make_pool(at: Any, *, tag: str = "pool", **options: Any) -> Pool:
    """A pool at a place. Options: `release_threshold`, `max_bytes` and `chunk_bytes`, which are sizes
    ("1GiB"), `streams_last` and `exportable`; see `vma::PoolOptions`."""
    call = "vmart.make_pool"
    checked = arguments.options(options, _POOL_OPTIONS, call)
    return _core.make_pool(as_place(at), tag=arguments.text(tag, "tag", call), **checked)


def default_pool(at: Any) -> Pool:
    """The pool that exists at each place from the start."""
    return _core.default_pool(as_place(at))
