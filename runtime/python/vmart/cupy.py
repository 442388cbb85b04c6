"""CuPy arrays in memory that moves: `vmart.cupy.use()` makes vmart CuPy's allocator.

Arrays are blocks of a pool for each GPU, allocated and freed in the order of CuPy's current stream, as
CuPy's own pool does it: an array that another stream uses as well must outlive that use.
"""

from __future__ import annotations

import threading
from typing import Any

import cupy

from vmart import _core, memory
from vmart.blocks import Blocks
from vmart.errors import NoDriver
from vmart.place import gpu, as_place

__all__ = ["Allocator", "use"]


class Allocator:
    """CuPy's allocator until `release()`, or until the end of its `with` block. Arrays that it made
    stay valid. Any thread."""

    def __init__(self, at: Any, tag: str, options: dict[str, Any]) -> None:
        self._at = None if at is None else as_place(at)
        self._tag = tag
        self._options = options
        self._lock = threading.Lock()
        self._blocks: dict[int, Blocks] = {}  # Of each GPU.
        # Of each live block: the stream on which it was allocated. It lives as long as the block: the
        # driver crashes if it is asked about a stream that was destroyed.
        self._streams: dict[int, Any] = {}
        self._thread = threading.local()
        self._before = cupy.cuda.get_allocator()
        self._functions = cupy.cuda.PythonFunctionAllocator(self._malloc, self._free)
        cupy.cuda.set_allocator(self._functions.malloc)

    def release(self) -> None:
        """The allocator before is back. Idempotent."""
        if self._before is not None:
            cupy.cuda.set_allocator(self._before)
            self._before = None

    def __enter__(self) -> Allocator:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def pool(self, device: int) -> _core.Pool:
        """The pool of a GPU: its statistics, `trim`, `migrate`."""
        return self._blocks_of(device).pool

    def _blocks_of(self, device: int) -> Blocks:
        with self._lock:
            blocks = self._blocks.get(device)
            if blocks is None:
                pool = memory.make_pool(self._at or gpu(device), tag=self._tag, **self._options)
                blocks = self._blocks[device] = Blocks(pool)
        return blocks

    def _malloc(self, size: int, device: int) -> int:
        self._enter_context(device)
        stream = cupy.cuda.get_current_stream()
        try:
            pointer = self._blocks_of(device).allocate(size, stream.ptr)
        except MemoryError as error:
            raise cupy.cuda.memory.OutOfMemoryError(size, 0) from error
        if pointer:
            self._streams[pointer] = stream
        return pointer

    def _free(self, pointer: int, device: int) -> None:
        if pointer == 0:
            return
        stream = self._streams.pop(pointer)
        with cupy.cuda.Device(device):  # A handle 0 is that of the current GPU.
            self._enter_context(device)
            self._blocks[device].deallocate(pointer, stream.ptr, owner=stream)

    def _enter_context(self, device: int) -> None:
        """A thread has no context before its first call of CUDA's runtime for that GPU."""
        known = self._thread.__dict__.setdefault("devices", set())
        if device not in known:
            cupy.cuda.runtime.free(0)
            known.add(device)


def _require_gpu() -> None:
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # A `CUDARuntimeError`, which is a RuntimeError.
        count, reason = 0, f": {error}"
    else:
        reason = ""
    if count == 0:
        raise NoDriver(
            f"vmart.cupy.use: CuPy finds no GPU{reason}. It needs a GPU and NVIDIA's driver; a simulated machine "
            "(VMART_DRIVER=sim:...) has neither: use vmart.empty or vmart.numpy there",
            "vmart.cupy.use",
        )


def use(at: Any = None, *, tag: str = "cupy", **options: Any) -> Allocator:
    """Makes vmart CuPy's allocator, for all GPUs: new arrays can move by `vmart.migrate(array, ...)`.

    `at` is where their memory lies at first; by default on the GPU that is current. Other options are
    those of `vmart.make_pool`. Only whole chunks move, so small arrays move with their neighbours:
    `report.bytes_along` says how many bytes. Raises `NoDriver` where CuPy has no GPU, as on simulated
    machines.
    """
    _require_gpu()
    return Allocator(at, tag, options)
