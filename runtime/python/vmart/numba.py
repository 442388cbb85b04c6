"""Numba's device arrays in memory that moves: `vmart.numba.use()` before Numba uses a GPU, or
NUMBA_CUDA_MEMORY_MANAGER=vmart.numba in the environment.

An External Memory Management plugin, for numba-cuda and for the `numba.cuda` of Numba itself. Host memory
(pinned, mapped, managed) stays Numba's own.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
from collections.abc import Mapping
from typing import Any

from numba import cuda, config

if config.ENABLE_CUDASIM:
    raise ImportError("vmart.numba needs a GPU: NUMBA_ENABLE_CUDASIM simulates one in Python")

from numba.cuda.cudadrv import driver

from vmart import _core, memory
from vmart.blocks import Blocks
from vmart.errors import Busy, InvalidArgument, OutOfMemory
from vmart.place import Place, gpu, as_place

__all__ = ["MemoryManager", "use"]


class MemoryManager(cuda.HostOnlyCUDAMemoryManager):
    """Numba makes one for each GPU: device arrays are blocks of its pool. Any thread.

    As with Numba's own manager, the memory of arrays that have ended is freed a few at a time
    (NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT), after all work that was enqueued, on whatever stream.
    """

    at: Place | None = None
    tag = "numba"
    options: Mapping[str, Any] = {}
    stream = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._lock = threading.RLock()  # A finalizer may run anywhere.
        self._blocks: Any = None  # `Blocks`, once Numba has used the GPU.
        self._numbers = itertools.count()
        self._live: dict[int, int] = {}  # By number: an address may be that of a later block.

    @property
    def pool(self) -> _core.Pool:
        """Its statistics, `trim`, `migrate`. Raises `InvalidArgument` before Numba has used the GPU."""
        if self._blocks is None:
            raise InvalidArgument("Numba has not used this GPU yet", "vmart.numba.MemoryManager")
        return self._blocks.pool

    @property
    def interface_version(self) -> int:
        return 1

    def initialize(self) -> None:
        """Called by Numba whenever it makes the context current."""
        with self._lock:
            if self._blocks is not None:
                return
            self._blocks = Blocks(memory.make_pool(self._place(), tag=self.tag, **self.options))
            with contextlib.suppress(NotImplementedError):
                self.deallocations.memory_capacity = self.get_memory_info().total

    def memalloc(self, size: int) -> cuda.MemoryPointer:
        """Raises `OutOfMemory`."""
        try:
            pointer = self._blocks.allocate(size, self.stream)
        except OutOfMemory:
            self.deallocations.clear()
            pointer = self._blocks.allocate(size, self.stream)
        number = next(self._numbers)
        with self._lock:
            self._live[number] = pointer
        try:
            return cuda.MemoryPointer(
                self.context,
                _device_pointer(pointer),
                size,
                finalizer=lambda: self.deallocations.add_item(self._free, number, size),
            )
        except BaseException:
            self._free(number)
            raise

    def get_ipc_handle(self, memory: Any) -> Any:
        raise NotImplementedError(
            "memory of vmart has no CUDA IPC handle: allocate it by vmart.alloc(..., exportable=True) and "
            "pass vmart.export_allocation(memory).path to the other process"
        )

    def get_memory_info(self) -> Any:
        """What vmart may use at the place of the pool, and what of that is free or cached."""
        for place in _core.stats().places:
            if place.at == self._place() and place.capacity_bytes:
                used = place.allocated_bytes + place.own_bytes + place.leaked_bytes
                return cuda.MemoryInfo(max(0, place.capacity_bytes - used), place.capacity_bytes)
        raise NotImplementedError(f"the machine does not say how much memory {self._place()} has")

    def reset(self) -> None:
        """Frees all, also what arrays refer to, as Numba's own manager does."""
        super().reset()
        with self._lock:
            live, self._live = self._live, {}
        for pointer in live.values():
            self._blocks.deallocate_idle(pointer, self.stream)

    def _place(self) -> Place:
        return self.at or gpu(self.context.device.id)

    def _free(self, number: int) -> None:
        with self._lock:
            pointer = self._live.pop(number, None)
        if pointer is not None:  # Otherwise, `reset` has freed it.
            self._blocks.deallocate_idle(pointer, self.stream)


def _device_pointer(pointer: int) -> Any:
    """As Numba's binding of the driver takes it: that of cuda-python, or one by ctypes."""
    binding = getattr(driver, "binding", None)
    return ctypes.c_uint64(pointer) if binding is None else binding.CUdeviceptr(pointer)


def use(at: Any = None, *, tag: str = "numba", **options: Any) -> type[MemoryManager]:
    """Makes vmart Numba's memory manager: new device arrays can move by `vmart.migrate(array, ...)`.
    Returns what it passes to `numba.cuda.set_memory_manager`.

    `at` is where their memory lies at first; by default on their GPU. Other options are those of
    `vmart.make_pool`. Only whole chunks move, so small arrays move with their neighbours:
    `report.bytes_along` says how many bytes.

    Raises `Busy` if Numba has used a GPU already: it would go on with what it had.
    """
    for device in driver.driver.devices.values():
        if device.primary_context is not None:
            raise Busy(
                f"Numba has used GPU {device.id} already: call vmart.numba.use() before anything of "
                "numba.cuda, or set NUMBA_CUDA_MEMORY_MANAGER=vmart.numba",
                "vmart.numba.use",
            )
    place = None if at is None else as_place(at)
    settings = {"at": place, "tag": tag, "options": options, "__module__": __name__}
    manager = type("MemoryManager", (MemoryManager,), settings)
    cuda.set_memory_manager(manager)
    return manager


_numba_memory_manager = MemoryManager  # What NUMBA_CUDA_MEMORY_MANAGER looks for.
