"""The backend that `--sleep-mode-backend vmart` selects. Only vLLM imports this module."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from vllm.device_allocator.cumem import CuMemAllocator
from vllm.device_allocator.sleep_mode_backend import CuMemBackend

from vmart.errors import Error
from vmart.torch import undoing
from vmart.vllm.allocator import Allocator

__all__ = ["SleepBackend"]

# vLLM's executor does not count a failed sleep, so that llm.wake_up() reaches no worker.
_GO_ON = (
    "vLLM has paused its scheduler: llm.wake_up() lets it go on; with several workers, restart the engine"
)
_RESTART = "Restart the engine"


class SleepBackend(CuMemBackend):
    """vLLM's own backend says what each level of sleep keeps, and calls the allocator, which is vmart's.
    This adds that the state is true after a failure and after a partial wake-up: SUSPENDED while
    anything is asleep.

    Communicators live on, as with vLLM's own.
    """

    def suspend(self, level: int = 1) -> None:
        """All or nothing: if it raises, everything is back, unless the text says what is not. That is all
        a user sees of an error in another process."""
        with self._true_state():
            try:
                super().suspend(level)
            except Error as error:
                left = getattr(error.report, "left", ())
                asleep = any(part.what == "asleep" for part in left)
                undoing.explain(error, _RESTART if asleep else _GO_ON)
                raise

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
