"""Blocks of a pool for libraries that bring their own rules: addresses as integers, and streams that may
be gone, or capture, when a block is freed."""

from __future__ import annotations

import collections
import logging
from typing import Any

from vmart import _core
from vmart.errors import DriverGone, Error, UnknownPointer

__all__ = ["Blocks"]

_log = logging.getLogger(__name__)
_capture_codes = range(900, 909)  # cudaErrorStreamCapture...: the stream, or one that it waits for, captures.


class Blocks:
    """Allocates and frees blocks of a pool in the order of streams. 0 bytes are the address 0. Any
    thread; a block may be freed by another thread than its own, and while the program ends."""

    def __init__(self, pool: _core.Pool) -> None:
        self.pool = pool
        # Pointer, stream, and what keeps the stream alive.
        self._due: collections.deque[tuple[int, int, Any]] = collections.deque()

    def allocate(self, nbytes: int, stream: int) -> int:
        """Raises `OutOfMemory`."""
        self._free_due()
        return self.pool.allocate(nbytes, stream) if nbytes else 0

    def deallocate(self, pointer: int, stream: int, owner: Any = None) -> None:
        """Frees after the work that is now enqueued on the stream; if the driver says that it was
        destroyed, after all work that was enqueued. While the stream captures, or if the driver fails,
        with a later call; `owner` keeps the stream alive until then. Raises `UnknownPointer`. Once the
        runtime has ended, nothing is left to do.

        The driver may crash if it is asked about a stream that was destroyed."""
        if pointer and not self._free(pointer, stream):
            self._due.append((pointer, stream, owner))
            return
        self._free_due()

    def deallocate_idle(self, pointer: int, stream: int) -> None:
        """Frees after all work that was enqueued, on whatever stream; if that cannot be waited for, by a
        later call, in the order of the stream. Blocks."""
        if pointer and not self._free_idle(pointer):
            self._due.append((pointer, stream, None))

    def end(self) -> None:
        """No more blocks can be allocated; the memory goes back with the last one."""
        self._free_due()
        try:
            self.pool.destroy()
        except DriverGone:
            pass

    def _free(self, pointer: int, stream: int) -> bool:
        """False: not now."""
        try:
            self.pool.deallocate(pointer, stream)
            return True
        except UnknownPointer:
            raise
        except Error as error:
            if isinstance(error, DriverGone) and error.native == 0:  # The runtime has ended.
                return True
            if error.native == 0 or error.native in _capture_codes:
                return False
        return self._free_idle(pointer)  # The stream was destroyed, or its context.

    def _free_idle(self, pointer: int) -> bool:
        try:
            self.pool.synchronize()
            self.pool.deallocate_now(pointer)
        except UnknownPointer:
            raise
        except Error as error:
            if isinstance(error, DriverGone) and error.native == 0:
                return True
            _log.warning("the block at %#x is freed later: %s", pointer, error)
            return False
        return True

    def _free_due(self) -> None:
        """In order, up to the first that has to wait on."""
        while True:
            try:
                pointer, stream, owner = self._due.popleft()
            except IndexError:
                return
            try:
                freed = self._free(pointer, stream)
            except UnknownPointer as error:
                _log.warning("a block was freed twice: %s", error)
                continue
            if not freed:
                self._due.appendleft((pointer, stream, owner))
                return
