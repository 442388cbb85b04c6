"""Blocks of a pool for libraries that bring their own rules: addresses as integers, and streams that may
be gone, or capture, when a block is freed."""

from __future__ import annotations

import collections

from vmart import _core
from vmart.errors import DriverGone, Error, UnknownPointer

__all__ = ["Blocks"]


class Blocks:
    """Allocates and frees blocks of a pool in the order of streams. 0 bytes are the address 0. Any
    thread; a block may be freed by another thread than its own, and while the program ends."""

    def __init__(self, pool: _core.Pool) -> None:
        self.pool = pool
        self._due: collections.deque[tuple[int, int]] = collections.deque()  # Pointer and stream.

    def allocate(self, nbytes: int, stream: int) -> int:
        """Raises `OutOfMemory`."""
        self._free_due()
        return self.pool.allocate(nbytes, stream) if nbytes else 0

    def deallocate(self, pointer: int, stream: int) -> None:
        """Frees after the work that is now enqueued on the stream; if that was destroyed, after all work
        that was enqueued. While the stream captures, with a later call. Raises `UnknownPointer`. Once
        the runtime has ended, nothing is left to do."""
        if pointer:
            self._due.append((pointer, stream))
        self._free_due()

    def deallocate_idle(self, pointer: int) -> None:
        """Frees after all work that was enqueued, on whatever stream. Blocks."""
        self.pool.synchronize()
        self.pool.deallocate_now(pointer)

    def _free_due(self) -> None:
        for _ in range(len(self._due)):
            try:
                pointer, stream = self._due.popleft()
            except IndexError:  # Another thread does it.
                return
            try:
                self.pool.deallocate(pointer, stream)
            except UnknownPointer:
                raise
            except DriverGone:
                pass
            except Error as error:
                if error.native == 0:  # The stream captures.
                    self._due.append((pointer, stream))
                else:  # It was destroyed.
                    self.deallocate_idle(pointer)
