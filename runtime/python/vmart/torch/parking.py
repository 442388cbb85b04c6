"""Tags that are parked and resumed together: all of them, or none.

`vmart.torch.memory_saver` and `vmart.vllm` say which tags, and whose bytes are kept; this is how.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from vmart import _core, moving, runtime
from vmart.errors import Error, InvalidArgument, OutOfMemory
from vmart.torch import undoing

__all__ = ["Failure", "Paused", "Resumed", "Stayed", "Tags"]


class Paused(NamedTuple):
    """What a pause did, in bytes. `residue_bytes` is memory in HBM that vmart holds afterwards: of other
    tags, and its cache."""

    freed_bytes: int
    host_bytes: int
    residue_bytes: int


class Resumed(NamedTuple):
    """What a resume did, in bytes. Part of `bytes` came back without its contents, as zeros if they
    were asked for (`zeroed_bytes`), and part to another GPU because its own was full. `host_bytes` of the tags lie at the host afterwards, because the program or a
    policy had moved them there."""

    bytes: int
    zeroed_bytes: int
    elsewhere_bytes: int
    host_bytes: int


class Stayed(NamedTuple):
    """Memory that a pin kept in place."""

    pointer: int
    nbytes: int
    reason: str


class Failure(NamedTuple):
    """The `report` of an error of `pause` and `resume`. `stayed` made it fail: `pointer`, `nbytes` and
    `reason`. `left` could not be put where it was, `zeroed_bytes` were dropped before the failure."""

    stayed: list[Any]
    left: list[undoing.Left]
    zeroed_bytes: int


class Tags:
    """The tags of vmart that begin with a prefix, for one interface of the process.

    `pause` and `resume` undo what they did if a part fails, whatever is raised. The error says what
    could not be undone, in its text and in `report`, a `Failure`. Any thread; one call at a time.

    Memory that a tag gets while the rest of it is asleep is awake. The next pause takes it too, with
    its bytes if any bytes of the tag are kept: the library drops by whole tags.
    """

    def __init__(self, prefix: str, call: str, shown: Callable[[str], str]) -> None:
        """`call` and `shown(tag)` name the interface and its tags in errors."""
        self.prefix = prefix
        self._call = call
        self._shown = shown
        self._lock = threading.Lock()

    def allocations(self) -> list[_core.AllocationInfo]:
        return [info for info in _core.allocations() if info.tag.startswith(self.prefix)]

    def present(self) -> set[str]:
        """The tags that have memory."""
        return {info.tag for info in self.allocations()}

    def any_paused(self) -> bool:
        return any(map(undoing.is_asleep, self.allocations()))

    def pause(self, drops: Mapping[str, bool]) -> Paused:
        """Gives the HBM of the tags to the driver. True: their bytes are not kept. Those that are kept go
        first, and otherwise the order is that of `drops`. What is paused stays as it is.

        Raises `Error` before anything moves if a part is pinned; later `Error`, or `OutOfMemory` if
        only the room at the host is missing. Bytes that were not to be kept may be lost then.
        """
        with self._lock, self._undoing("pause", drops, undoing.Snapshot.wake_again) as before:
            hbm, moved = _in_hbm(), 0
            for tag in drops:
                stayed = [Stayed(*memory, _PINNED) for memory in before.pinned(tag)]
                self._require_none("pause", tag, stayed)
            for tag in sorted(drops, key=drops.__getitem__):
                with self._unless(lambda: tag not in self.present()):
                    # Dropping would also drop what the tag keeps.
                    report = moving.park(tag, drop=drops[tag] and not before.keeps(tag))
                    self._require_none("pause", tag, report.stayed)
                    moved += report.bytes_moved - report.bytes_dropped
            after = _in_hbm()
            return Paused(max(0, hbm - after), moved, after)

    def resume(
        self, tags: Iterable[str], clean_copies: Collection[str] = (), *, zeroed: bool = True
    ) -> Resumed:
        """Gives the tags memory again, with what was kept, or zeros; without `zeroed`, what was not kept
        is undefined. `clean_copies`: those whose copies at the host stay, for the next pause. What is
        not paused stays as it is.

        Raises `OutOfMemory` if only the room on the GPUs is missing, else `Error`.
        """
        paused = sorted(tag for tag in tags if moving.is_parked(tag))
        undone = self._undoing("resume", paused, undoing.Snapshot.sleep_again)
        with self._lock, undone, contextlib.ExitStack() as held:
            came, zeroed, elsewhere = 0, 0, 0
            for tag in paused:
                with self._unless(lambda: not moving.is_parked(tag)):
                    report = moving.resume(tag, zeroed=zeroed, keep_clean_copy=tag in clean_copies)
                    self._require_none("resume", tag, report.stayed)
                    came += report.bytes_moved
                    zeroed += report.bytes_dropped
                    elsewhere += report.bytes_elsewhere
                    # Else the next one may evict it again.
                    held.enter_context(runtime.pin(tag))
            return Resumed(came, zeroed, elsewhere, self._at_host(paused) if paused else 0)

    @staticmethod
    @contextlib.contextmanager
    def _unless(gone: Callable[[], bool]) -> Iterator[None]:
        """A tag whose last memory another thread has freed is nothing to park or resume."""
        try:
            yield
        except InvalidArgument:
            if not gone():
                raise

    @contextlib.contextmanager
    def _undoing(
        self,
        verb: str,
        tags: Iterable[str],
        undo: Callable[[undoing.Snapshot], undoing.Undone],
    ) -> Iterator[undoing.Snapshot]:
        """Whatever is raised inside, what was done to the tags is undone."""
        before = undoing.Snapshot(tags)
        try:
            yield before
        except BaseException as error:
            undone = undo(before)
            if isinstance(error, Error):
                stayed = list(getattr(error.report, "stayed", ()))
                error.report = Failure(stayed, undone.left, undone.zeroed_bytes)
            undoing.explain(error, self._told(verb, undone))
            raise

    def _told(self, verb: str, undone: undoing.Undone) -> str:
        if not undone.any:
            return f"Nothing has changed by this {verb}"
        text = "What it had done is undone"
        if undone.left:
            left = ", ".join(
                f'{part.nbytes} bytes of tag "{self._shown(part.tag)}" are {part.what}'
                for part in undone.left
            )
            text = f"Not all that it had done could be undone: {left}"
            reasons = "; ".join(undone.reasons)
            text += f" ({reasons})" if reasons else ""
        if undone.zeroed_bytes:
            text += f". {undone.zeroed_bytes} bytes that were to be dropped are zeros"
        return text

    def _at_host(self, tags: Collection[str]) -> int:
        extents = [part for info in self.allocations() if info.tag in tags for part in info.extents]
        return sum(part.nbytes for part in extents if part.at.kind == "host" and not part.dropped)

    def _require_none(self, verb: str, tag: str, stayed: list[Any]) -> None:
        if not stayed:
            return
        reasons = "; ".join(f"{part.nbytes} bytes: {part.reason}" for part in stayed)
        # "vma::park: out_of_memory: ..."
        full = all(part.reason.split(": ")[1:2] == [OutOfMemory.kind] for part in stayed)
        text = f'tag "{self._shown(tag)}" could not {verb} in full: {reasons}'
        failed = OutOfMemory if full else Error
        raise failed(text, f"{self._call}.{verb}", 0, Failure(stayed, [], 0))


_PINNED = (
    "it is pinned: by a pin, a view for the CPU, an export that no hook follows, or movable=False"
)


def _in_hbm() -> int:
    places = [place for place in _core.stats().places if place.at.kind == "gpu"]
    return sum(place.allocated_bytes + place.cached_bytes for place in places)
