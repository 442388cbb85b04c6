"""The backend that `--sleep-mode-backend vmart` selects. Only vLLM imports this module."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from vllm.device_allocator.cumem import CuMemAllocator
from vllm.device_allocator.sleep_mode_backend import CuMemBackend

from vmart.vllm.allocator import Allocator

__all__ = ["SleepBackend"]


class SleepBackend(CuMemBackend):
    """vLLM's own backend says what each level of sleep keeps, and calls the allocator, which is vmart's.
    This adds that the state is true after a failure and after a partial wake-up: SUSPENDED while
    anything is asleep.

    Communicators live on, as with vLLM's own.
    """

    def suspend(self, level: int = 1) -> None:
        """All or nothing: if it raises, everything is back."""
        with self._true_state():
            super().suspend(level)

    def resume(self, tags: list[str] | None = None) -> None:
        """All or nothing: if it raises, what was asleep is asleep."""
        with self._true_state():
            super().resume(tags)

    def discard(self, tags: tuple[str, ...]) -> None:
        with self._true_state():
            super().discard(tags)

    @contextlib.contextmanager
    def _true_state(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._state = "SUSPENDED" if CuMemAllocator.get_instance().asleep else "RUNNING"

    @classmethod
    def is_supported(cls) -> bool:
        """Whether vmart's allocator is the one that vLLM uses."""
        return isinstance(CuMemAllocator.instance, Allocator)
