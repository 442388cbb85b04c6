"""Buffers of cuda.core in memory that moves.

    resource = vmart.MemoryResource(device)          # device: a cuda.core.Device, a number, or a place
    buffer = resource.allocate(1 << 26, stream=stream)
    vmart.migrate(buffer, "gpu1")                    # int(buffer.handle) stays

For cuda.core 1.2 or newer: older ones forget the stream on which a buffer was allocated, and would free it
too early.
"""

from __future__ import annotations

import inspect
import weakref
from typing import Any

import cuda.core

from vmart import _core, memory
from vmart.blocks import Blocks
from vmart.errors import InvalidArgument
from vmart.place import gpu, as_place
from vmart.runtime import stream_handle

__all__ = ["MemoryResource"]

if "stream" not in inspect.signature(cuda.core.Buffer.from_handle).parameters:
    raise ImportError(
        f"vmart.MemoryResource needs cuda.core 1.2 or newer, and this is {cuda.core.__version__}"
    )


class MemoryResource(cuda.core.MemoryResource):
    """A `cuda.core.MemoryResource` on a pool, in the order of streams. Any thread.

    `device` is the GPU whose kernels use the buffers: a `cuda.core.Device`, a number or a place, by
    default the device that is current. `at` is where their memory lies at first, by default on that
    GPU. Other options are those of `vmart.make_pool`. The pool lives until `close`, the end of `with`,
    or that of the resource and its buffers.

    `device_id` of the resource and its buffers, and the device of DLPack, stay when memory moves: they
    say whose kernels use it. The CPU cannot access it, wherever it lies: copy, or use `vmart.alloc`.
    cuda.core's default stream is that of the device that is current.

    Only whole chunks move: `report.bytes_along` says how many bytes moved with a small buffer.
    """

    def __init__(
        self, device: Any = None, *, at: Any = None, tag: str = "cuda.core", **options: Any
    ) -> None:
        if device is None:
            device = cuda.core.Device()
        user = gpu(device) if isinstance(device, int) else as_place(device)
        if user.kind != "gpu":
            raise InvalidArgument(
                f"{user} has no kernels: pass a GPU as device, and {user} as at", "vmart.MemoryResource"
            )
        self._device_id = user.ordinal
        self._at = user if at is None else as_place(at)
        self._blocks = Blocks(memory.make_pool(self._at, tag=tag, **options))
        # Buffers refer to their resource. A program that ends frees nothing.
        self._end = weakref.finalize(self, self._blocks.end)
        self._end.atexit = False

    def allocate(self, size: int, *, stream: Any) -> cuda.core.Buffer:
        """A buffer for work that the stream does from now on. It is freed with the last reference to
        it, or by `close()`, in the order of this stream or of that of `close`. Raises `OutOfMemory`."""
        pointer = self._blocks.allocate(size, stream_handle(stream))
        try:
            return cuda.core.Buffer.from_handle(pointer, size, mr=self, stream=stream)
        except BaseException:
            self._blocks.deallocate(pointer, stream_handle(stream), owner=stream)
            raise

    def deallocate(self, ptr: Any, size: int, *, stream: Any) -> None:
        """For cuda.core: called once for each buffer, maybe while the program ends."""
        self._blocks.deallocate(int(ptr), stream_handle(stream), owner=stream)

    def close(self) -> None:
        """No more buffers can be allocated; the memory goes back with the last one. Idempotent."""
        self._end()

    def __enter__(self) -> MemoryResource:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def pool(self) -> _core.Pool:
        """Its statistics, `trim`, `migrate`."""
        return self._blocks.pool

    @property
    def is_device_accessible(self) -> bool:
        return True

    @property
    def is_host_accessible(self) -> bool:
        return False

    @property
    def is_managed(self) -> bool:
        return False

    @property
    def device_id(self) -> int:
        return self._device_id

    def __repr__(self) -> str:
        return f"<vmart.MemoryResource for GPU {self._device_id}, at {self._at}>"
