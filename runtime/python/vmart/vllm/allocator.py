"""vLLM's `MemAllocator` on memory of vmart."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import threading
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import torch

from vmart import _core, runtime
from vmart.torch import parking, pools, undoing

__all__ = ["Allocated", "Allocator"]

_PREFIX = "vllm/"  # Of tags of vmart: "vllm/weights".
# Chunks chosen by size round a segment up by as much as a third; with these it is 2 MiB, or nothing.
_CHUNK_BYTES = 16 << 20
_opening = threading.Lock()  # The runtime belongs to the process.
_log = logging.getLogger("vllm.vmart")  # vLLM shows what is logged below its own name.


class Allocated(NamedTuple):
    """A segment of PyTorch's. `handle` is the process's GPU, the size in bytes, the address, and 0."""

    handle: tuple[int, int, int, int]
    tag: str
    is_asleep: bool


class Allocator:
    """Tensors that vLLM makes under a tag: weights, KV cache, and others. Asleep they have no HBM, and
    keep their addresses. Has the calls of vLLM's `CuMemAllocator`.

    `sleep`, `discard` and `wake_up` undo what they did when a part fails, and raise `vmart.Error`, with
    `report` (`vmart.torch.parking.Failure`) and a text that says what could not be undone. Memory
    that a tag gets while the rest of it is asleep is awake, and part of the next sleep. The backups of what is kept lie in memory of vmart at the host: VMART_CAPACITY limits it.

    Opens the runtime at the first pool, for the current GPU alone: vLLM has one process for each.
    Any thread; a pool belongs to the thread that enters it.
    """

    default_tag = "default"

    def __init__(self, deferrable: Collection[str] = ("weights", "kv_cache")) -> None:
        """A wake-up by tags defers only the tags in `deferrable`."""
        self._deferrable = frozenset(deferrable)
        self._thread = threading.local()
        self._tags = parking.Tags(_PREFIX, "vmart.vllm", _name)

    # --- Pools

    @contextlib.contextmanager
    def use_memory_pool(self, tag: str | None = None) -> Iterator[None]:
        """Tensors that this thread makes inside have the tag. Pools nest; the innermost one counts. At
        its end, memory without tensors goes back to the GPU driver."""
        name = self.default_tag if tag is None else tag
        self._open_runtime()
        if name != self.current_tag:  # What was outgrown since then goes first.
            self._give_back(_PREFIX + name)
        # Sleep stops all work, so streams need not attach.
        pool = pools.memory(_PREFIX + name, chunk_bytes=_CHUNK_BYTES, attach=False)
        try:
            with self._tagged(name), pool:
                yield
        finally:
            self._give_back(_PREFIX + name)

    @contextlib.contextmanager
    def cudagraph_pool(self) -> Iterator[tuple[int, int]]:
        """The id of a pool: the memory of graphs that this thread captures into it inside has the tag
        "cudagraph"."""
        self._open_runtime()
        capturing = pools.capturing(_PREFIX + "cudagraph", _CHUNK_BYTES)
        with self._tagged("cudagraph"), capturing as pool:
            yield pool.id

    def release_pools(self) -> None:
        """Drops the pools that no graph uses. Tensors stay."""
        for tag in self._tags.present():
            pools.release(tag)

    def close(self) -> None:
        self.release_pools()

    @property
    def current_tag(self) -> str:
        return getattr(self._thread, "tag", self.default_tag)

    @contextlib.contextmanager
    def _tagged(self, name: str) -> Iterator[None]:
        before = self.current_tag
        self._thread.tag = name
        try:
            yield
        finally:
            self._thread.tag = before

    @staticmethod
    def _open_runtime() -> None:
        # Contexts on the GPUs of other workers would take their HBM. The library reads VMART_DEVICES.
        if runtime.is_open() or "VMART_DEVICES" in os.environ:
            return
        with _opening:
            if not runtime.is_open():
                runtime.open_runtime(devices=[torch.cuda.current_device()])

    @staticmethod
    def _give_back(*tags: str) -> None:
        """Frees the tags' memory without tensors, and returns what is free to the driver."""
        if torch.cuda.is_current_stream_capturing():
            return
        for tag in tags:
            pools.release(tag)
        torch.cuda.empty_cache()  # Also frees memory of pools that were dropped before.
        for place in _core.stats().places:
            if place.at.kind == "gpu" and place.cached_bytes:
                _core.trim(place.at)

    # --- Sleep

    def sleep(self, offload_tags: tuple[str, ...] | str | None = None) -> parking.Paused:
        """Gives the HBM of all tags to the driver. The bytes of `offload_tags` (None: of the default tag)
        go to the host, others are dropped. What is asleep stays as it is; new memory of a tag whose
        bytes are kept is kept too.

        Raises `vmart.Error` before anything moves if memory is pinned. If a part fails later, because
        the host has no room (`OutOfMemory`) for instance, everything is brought back; what is to be
        dropped goes last, but may be zeros then.
        """
        kept = _names((self.default_tag,) if offload_tags is None else offload_tags)
        return self._put_to_sleep({tag: _name(tag) not in kept for tag in self._present()})

    def discard(self, tags: tuple[str, ...] | str) -> parking.Paused:
        """Gives the HBM of these tags to the driver, without their bytes. What is asleep stays as it is;
        new memory of a tag whose bytes are kept is kept too. Raises as `sleep`."""
        chosen = _names(tags)
        return self._put_to_sleep({tag: True for tag in self._present() if _name(tag) in chosen})

    def wake_up(self, tags: list[str] | None = None) -> parking.Resumed:
        """Gives what is asleep HBM again, at the same addresses: its bytes if they were kept, else zeros.
        With `tags`, weights and KV cache that they do not name stay asleep; all else wakes up.

        If a part fails, because the GPU has no room (`OutOfMemory`) for instance, what was asleep is
        asleep again.
        """
        deferred = self._deferrable.difference(() if tags is None else tags)
        woken = self._tags.resume(
            tag for tag in self._present() if tags is None or _name(tag) not in deferred
        )
        if woken.elsewhere_bytes:
            _log.warning(
                "%d bytes woke up on another GPU, since their own is full", woken.elsewhere_bytes
            )
        return woken

    def _present(self) -> set[str]:
        """The tags, after what nobody needs is gone: it needs no backup, and makes room."""
        if not runtime.is_open():
            return set()
        gc.collect()
        self._give_back(*self._tags.present())
        return self._tags.present()

    def _put_to_sleep(self, drops: dict[str, bool]) -> parking.Paused:
        if not runtime.is_open():
            return parking.Paused(0, 0, 0)
        if drops:
            torch.cuda.synchronize()  # Work may take longer than parking waits for it.
        # Losing the weights costs the most, so they are dropped last.
        order = sorted(drops, key=lambda tag: (_name(tag) == "weights", tag))
        slept = self._tags.pause({tag: drops[tag] for tag in order})
        _log.info(
            "asleep: %.2f GiB of HBM freed, %.2f GiB copied to the host; vmart still has %.2f GiB of HBM",
            *(nbytes / (1 << 30) for nbytes in slept),
        )
        return slept

    # --- Queries

    @property
    def asleep(self) -> bool:
        """Whether anything is."""
        return runtime.is_open() and self._tags.any_paused()

    def get_current_usage(self) -> int:
        """The bytes of all tags, awake and asleep."""
        return sum(info.nbytes for info in self._allocations())

    @property
    def pointer_to_data(self) -> dict[int, Allocated]:
        """The segments by address. A snapshot."""
        device = torch.cuda.current_device()
        return {
            info.pointer: Allocated(
                (device, info.nbytes, info.pointer, 0),
                _name(info.tag),
                undoing.is_asleep(info),
            )
            for info in self._allocations()
        }

    def _allocations(self) -> list[Any]:
        return self._tags.allocations() if runtime.is_open() else []


def _name(tag: str) -> str:
    return tag.removeprefix(_PREFIX)


def _names(tags: tuple[str, ...] | str) -> frozenset[str]:
    return frozenset((tags,) if isinstance(tags, str) else tags)
