"""Where the bytes of tags lie, and how they get there again after a pause or resume that failed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

from vmart import _core, moving
from vmart.errors import Error
from vmart.targets import Range

__all__ = ["Left", "Snapshot", "Undone", "explain", "is_asleep"]


class Left(NamedTuple):
    """Bytes of a tag that could not be put where they were. `what` is "asleep", "awake", or the GPU that
    they are on now: "on gpu(1)"."""

    tag: str
    nbytes: int
    what: str


class Undone(NamedTuple):
    """What an undo did. `reasons` say why `left` is not empty. `zeroed_bytes` have memory again, but had
    been dropped."""

    any: bool
    left: list[Left]
    zeroed_bytes: int
    reasons: list[str]


class _Change(NamedTuple):
    """Adjacent bytes of an allocation that lie elsewhere than before."""

    tag: str
    memory: Range
    was: _core.Extent
    now: _core.Extent

    @property
    def what(self) -> str | None:
        """As of `Left`. None: asleep before and now."""
        if _in_hbm(self.was) and _in_hbm(self.now):
            return f"on {self.now.at}"
        if _in_hbm(self.was):
            return "asleep"
        return "awake" if _in_hbm(self.now) else None


def _in_hbm(part: _core.Extent) -> bool:
    return part.at.kind == "gpu" and not part.dropped


def is_asleep(info: _core.AllocationInfo) -> bool:
    """Whether a part is. The library says "parked" also of memory that was moved back by `migrate`."""
    return info.parked and not all(_in_hbm(part) for part in info.extents)


class Snapshot:
    """Where the bytes of tags lie when it is made.

    An undo goes on after whatever is raised in it. Memory that was freed since then is left out.
    """

    def __init__(self, tags: Iterable[str]) -> None:
        self._tags = list(tags)
        found = _core.allocations() if self._tags else []  # Which opens the runtime.
        self._infos = [info for info in found if info.tag in self._tags]

    def pinned(self, tag: str) -> list[tuple[int, int]]:
        """Address and bytes of allocations with memory in HBM that may not move."""
        return [
            (info.pointer, sum(part.nbytes for part in info.extents if _in_hbm(part)))
            for info in self._of(tag)
            if not info.movable and any(map(_in_hbm, info.extents))
        ]

    def keeps(self, tag: str) -> bool:
        """Whether some of it is asleep with its bytes."""
        parts = [part for info in self._of(tag) if is_asleep(info) for part in info.extents]
        return any(not part.dropped and not _in_hbm(part) for part in parts)

    def wake_again(self) -> Undone:
        """Undoes a pause."""
        return self._undo(self._wake)

    def sleep_again(self) -> Undone:
        """Undoes a resume."""
        return self._undo(self._lay_down)

    def _of(self, tag: str) -> list[_core.AllocationInfo]:
        return [info for info in self._infos if info.tag == tag]

    def _undo(self, one: Callable[[str, list[_Change]], _core.ParkReport | None]) -> Undone:
        reasons: list[str] = []
        zeroed, any_changed = 0, False
        for tag in self._tags:
            try:
                changes = self._changes([tag])
                if not changes:
                    continue
                any_changed = True
                report = one(tag, changes)
                if report is not None:
                    zeroed += report.bytes_dropped if one == self._wake else 0
                    reasons += [part.reason for part in report.stayed]
            except BaseException as failed:  # The other tags are undone nevertheless.
                reasons.append(f"{type(failed).__name__}: {failed}")
        return Undone(any_changed, self._left(), zeroed, reasons)

    def _wake(self, tag: str, changes: list[_Change]) -> _core.ParkReport | None:
        if not any(is_asleep(info) for info in self._of(tag)):
            return moving.resume(tag)
        for change in changes:  # Not what was asleep before.
            if change.what == "asleep" and not change.now.dropped:
                moving.migrate(change.memory, change.was.at)
        return None

    def _lay_down(self, tag: str, changes: list[_Change]) -> _core.ParkReport | None:
        if all(change.what is None for change in changes):
            return None
        with self._aside(tag):
            return moving.park(tag, drop=not self.keeps(tag))

    @contextlib.contextmanager
    def _aside(self, tag: str) -> Iterator[None]:
        """At the host because the program put it there, what was awake is not parked with the rest."""
        present = {info.pointer for info in _core.allocations()}
        awake = [
            (Range(info.pointer + part.offset, part.nbytes), part.at)
            for info in self._of(tag)
            for part in info.extents
            if info.pointer in present and _in_hbm(part)
        ]
        host = next(place for place in _core.places() if place.kind == "host")
        with contextlib.ExitStack() as back:
            for memory, at in awake:
                back.callback(moving.migrate, memory, at)
                moving.migrate(memory, host)
            yield

    def _changes(self, tags: Collection[str]) -> list[_Change]:
        now = {info.pointer: info for info in _core.allocations()}
        return [
            change
            for before in self._infos
            if before.tag in tags and before.pointer in now
            for change in _between(before, now[before.pointer])
        ]

    def _left(self) -> list[Left]:
        sums: dict[tuple[str, str], int] = {}
        for change in self._changes(self._tags):
            if change.what is not None:
                key = change.tag, change.what
                sums[key] = sums.get(key, 0) + change.memory.nbytes
        return [Left(tag, nbytes, what) for (tag, what), nbytes in sums.items()]


def _between(before: _core.AllocationInfo, now: _core.AllocationInfo) -> Iterator[_Change]:
    for was in before.extents:
        for part in now.extents:
            begin = max(was.offset, part.offset)
            nbytes = min(was.offset + was.nbytes, part.offset + part.nbytes) - begin
            if nbytes > 0 and (str(was.at), was.dropped) != (str(part.at), part.dropped):
                yield _Change(before.tag, Range(before.pointer + begin, nbytes), was, part)


def explain(error: BaseException, text: str) -> None:
    """Adds a sentence to the text of an error; for errors of others, as a note."""
    if isinstance(error, Error):
        error.args = (f"{error}. {text}", *error.args[1:])
        return
    notes: list[Any] = getattr(error, "__notes__", [])
    error.__notes__ = [*notes, text]  # type: ignore[attr-defined]  # Shown from Python 3.11 on.
