"""Moves: `migrate`, `migrate_async`, `where`, and parking by tag.

Whatever has memory can be moved; `vmart.targets` says what that is. Addresses stay the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, NamedTuple

from vmart import _core, arguments
from vmart.errors import Error, InvalidArgument
from vmart.place import Place, as_place
from vmart.reprs import bytes_text
from vmart.targets import Range, find, ranges_of

__all__ = [
    "Migration", "Report", "is_parked", "migrate", "migrate_async", "park", "resume", "where",
]  # fmt: skip


class Report:
    """What a migration did: the members of `total` (times in seconds), and `requests`, one report
    for each part of an allocation.

    `bytes_named` is the size of the objects that were named. `bytes_along` is what moved with them
    because only whole chunks move: neighbours in a segment of PyTorch's pool, for example, and what
    rounding to chunks added to an allocation.
    """

    def __init__(self, group: _core.GroupReport, bytes_named: int) -> None:
        self._group = group
        # How much a bare address names is known only to the move.
        addresses = [one for one in group.requests if not one.names_range]
        self.bytes_named = bytes_named + sum(one.report.bytes_asked for one in addresses)

    @property
    def total(self) -> _core.MigrationReport:
        return self._group.total

    @property
    def requests(self) -> list[_core.RequestReport]:
        return self._group.requests

    @property
    def bytes_along(self) -> int:
        return max(0, self.total.bytes_asked - self.bytes_named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._group.total, name)

    def __repr__(self) -> str:
        total = self.total
        along = f", {bytes_text(self.bytes_along)} of them along" if self.bytes_along else ""
        return (
            f"<vmart.Report: {total.outcome}, {bytes_text(total.bytes_moved)} of "
            f"{bytes_text(total.bytes_asked)} moved{along}, {total.wall * 1e3:.2f} ms, longest stall {total.stall_max * 1e6:.0f} us>"
        )


class Migration:
    """A running migration. It continues if this object is dropped. Can be awaited."""

    def __init__(self, group: _core.MigrationGroup, bytes_named: int) -> None:
        self._group = group
        self._bytes_named = bytes_named

    def wait(self, timeout: float | None = None) -> Report:
        """Blocks until all has moved. Raises the error of the migration; `TimeoutError` after
        `timeout` seconds, while the migration continues."""
        if timeout is not None and not self._group.wait_for(
            arguments.seconds(timeout, "timeout", "vmart.Migration.wait")
        ):
            raise TimeoutError(f"the migration did not end within {timeout} s; it continues")
        with _reporting(self._bytes_named):
            return Report(self._group.wait(), self._bytes_named)

    def done(self) -> bool:
        """Whether it has ended. Does not block."""
        return self._group.done()

    def cancel(self) -> None:
        """Ends it at the next chunk. What has moved stays at the target. Does not block."""
        self._group.cancel()

    def report(self) -> Report:
        """What it has done so far."""
        return Report(self._group.report(), self._bytes_named)

    def add_done_callback(self, callback: Callable[[Migration], Any]) -> None:
        """Calls `callback(self)` on a thread of the runtime when the migration has ended; at once,
        on that thread, if it has. An exception of it is logged and counted
        (`vmart.stats().callbacks_failed`)."""
        self._group.on_done(lambda: callback(self))

    def __repr__(self) -> str:
        total = self._group.report().total
        state = total.outcome if self.done() else "running"
        moved = f"{bytes_text(total.bytes_moved)} of {bytes_text(total.bytes_asked)}"
        return f"<vmart.Migration: {state}, {moved} moved>"

    def __await__(self) -> Generator[Any, None, Report]:
        """Cancelling the awaiting task cancels the migration."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def tell() -> None:
            if not ended.done():
                ended.set_result(None)

        def end(_: Migration) -> None:
            try:
                loop.call_soon_threadsafe(tell)
            except RuntimeError:  # The loop was closed: nobody waits any more.
                pass

        self.add_done_callback(end)
        try:
            yield from ended.__await__()
        except asyncio.CancelledError:
            self.cancel()
            raise
        return self.wait()


class _Part(NamedTuple):
    """A range of one allocation, in bytes from its start."""

    base: int
    begin: int
    end: int


def _joined(parts: Iterable[_Part]) -> list[_Part]:
    """Those of an allocation that meet as one, by address."""
    joined: list[_Part] = []
    for part in sorted(parts):
        if joined and joined[-1].base == part.base and part.begin <= joined[-1].end:
            joined[-1] = joined[-1]._replace(end=max(joined[-1].end, part.end))
        else:
            joined.append(part)
    return joined


def _requests(what: Any, to: Any) -> tuple[list[_core.MoveRequest], int]:
    """The requests, in whole chunks, so that each chunk of a range is asked for once; and the bytes
    of the ranges. A bare address is a request of its own: an allocation, or a block of a pool."""
    place = as_place(to)
    requests, named, rounded = [], [], []
    for memory in ranges_of(what):
        info = find(memory)
        if not memory.nbytes:
            requests.append(_core.MoveRequest(memory.begin, place))
            continue
        begin = memory.begin - info.pointer
        end = min(begin + memory.nbytes, info.nbytes)
        named.append(_Part(info.pointer, begin, end))
        chunk = info.chunk_bytes
        rounded.append(
            _Part(info.pointer, begin // chunk * chunk, min(-(-end // chunk) * chunk, info.nbytes))
        )
    if not requests and not named:
        raise InvalidArgument("there is nothing to move: no object has memory", "vmart.migrate")
    requests += [
        _core.MoveRequest(part.base, place, part.begin, part.end - part.begin)
        for part in _joined(rounded)
    ]
    return requests, sum(part.end - part.begin for part in _joined(named))


def _on_progress(value: Any, name: str, call: str) -> Any:
    if not callable(value):
        raise TypeError(f"{call}: {name} is {value!r}, which cannot be called")
    return value


def _mode(value: Any, name: str, call: str) -> str:
    return arguments.choice(value, name, call, ("automatic", "live", "stopped"))


def _scope(value: Any, name: str, call: str) -> str:
    return arguments.choice(value, name, call, ("attached", "hold"))


def _deadline(value: Any, name: str, call: str) -> float:
    if value == 0:
        raise InvalidArgument(f"{call}: {name} is 0 s; it may be more, or None for the default", call)
    return arguments.seconds(value, name, call)


def _percent(value: Any, name: str, call: str) -> int:
    return arguments.integer(value, name, call, least=1, most=100)


def _priority(value: Any, name: str, call: str) -> int:
    return arguments.integer(value, name, call, least=-(1 << 31), most=(1 << 31) - 1)


_OPTIONS: dict[str, Callable[[Any, str, str], Any]] = {
    "mode": _mode, "scope": _scope, "deadline": _deadline, "max_stall": arguments.seconds,
    "copy_share_percent": _percent, "priority": _priority, "on_progress": _on_progress,
    "reserve_first": arguments.flag, "all_or_nothing": arguments.flag, "nothing_runs": arguments.flag,
    "wait_for_pins": arguments.flag, "paranoid": arguments.flag, "keep_clean_copy": arguments.flag,
}  # fmt: skip


def _options(given: dict[str, Any], call: str) -> _core.MigrateOptions:
    return _core.MigrateOptions(**arguments.options(given, _OPTIONS, call))


@contextlib.contextmanager
def _reporting(bytes_named: int) -> Iterator[None]:
    """An error of the migration has a `Report`."""
    try:
        yield
    except Error as error:
        if isinstance(error.report, _core.GroupReport):
            error.report = Report(error.report, bytes_named)
        raise


def migrate(what: Any, to: Any, **options: Any) -> Report:
    """Moves the memory of `what` to a place, as one group.

    `what` is an allocation, tensor, module, optimizer, array, tag, address, a list of such, or a pool. `to`
    is `vmart.gpu(1)`, "gpu1", "host0", "cuda:1" or "cpu". Only whole chunks move: the report says how
    many bytes came along.

    All work of the process stands meanwhile, wherever it is, and may still run afterwards; where it
    cannot be suspended, what is enqueued finishes first. With `scope="attached"` the memory moves in
    the background beside running work and this call waits for it; see `migrate_async`.

    Options: `mode` ("automatic", "live", "stopped"), `scope` ("attached", "hold"), `deadline` and
    `max_stall` in seconds, `copy_share_percent`, `priority`, `reserve_first`, `all_or_nothing`,
    `nothing_runs`, `wait_for_pins`, `paranoid`, `keep_clean_copy`, `on_progress` (called on another
    thread; an exception of it is logged and counted). They are those of `vma::MigrateOptions`.

    Raises `InvalidArgument`, `UnknownPointer`; `Busy`, `OutOfMemory`, `Pinned`, ... with `report` if
    something stayed. Blocks until done, without the GIL.
    """
    how = _options(options, "vmart.migrate")
    if isinstance(what, _core.Pool):
        group = what.migrate(as_place(to), how)
        return Report(group, group.total.bytes_asked)
    requests, named = _requests(what, to)
    with _reporting(named):
        return Report(_core.migrate(requests, how), named)


def migrate_async(what: Any, to: Any, **options: Any) -> Migration:
    """Moves in the background, beside running work, which stands for some milliseconds, in which as many
    chunks switch as fit. Arguments as of `migrate`. Does not block.

    Raises `InvalidArgument` and `UnknownPointer`. Everything else is raised by `wait`.
    """
    how = _options(options, "vmart.migrate_async")
    requests, named = _requests(what, to)
    return Migration(_core.migrate_async(requests, how), named)


def where(what: Any) -> list[_core.Extent]:
    """Where the bytes of `what` lie, in the order of its parts. Offsets count from the start of each
    range. Raises `UnknownPointer` for memory that is not vmart's. Does not block."""
    return [extent for memory in ranges_of(what) for extent in _clipped(find(memory), memory)]


def _clipped(info: _core.AllocationInfo, memory: Range) -> list[_core.Extent]:
    begin = memory.begin - info.pointer if memory.nbytes else 0
    end = begin + memory.nbytes if memory.nbytes else info.nbytes
    return [
        _core.Extent(
            max(extent.offset, begin) - begin,
            min(extent.offset + extent.nbytes, end) - max(extent.offset, begin),
            extent.at,
            extent.generation,
            extent.dropped,
        )
        for extent in info.extents
        if extent.offset < end and extent.offset + extent.nbytes > begin
    ]


def park(tag: str, *, to: Any = None, drop: bool = False, **options: Any) -> _core.ParkReport:
    """Moves the HBM part of every allocation with the tag to host memory, and returns that HBM to the
    driver. With `drop` the bytes are not kept: `resume` brings zeros. The report's `stayed` says
    what could not move, and why. Blocks until done, without the GIL."""
    place: Place | None = None if to is None else as_place(to)
    how = _options(options, "vmart.park")
    return _core.park(
        arguments.text(tag, "tag", "vmart.park"), how, place, arguments.flag(drop, "drop", "vmart.park")
    )


def resume(tag: str, *, zeroed: bool = True, **options: Any) -> _core.ParkReport:
    """Moves what is parked under the tag back to where it was. Memory whose bytes were not kept has
    zeros; without `zeroed` its contents are undefined, which is faster. What does not fit stays
    parked and is in the report; a second call tries it again. Blocks until done, without the GIL."""
    how = _options(options, "vmart.resume")
    return _core.resume(
        arguments.text(tag, "tag", "vmart.resume"),
        how,
        arguments.flag(zeroed, "zeroed", "vmart.resume"),
    )


def is_parked(tag: str) -> bool:
    """Whether memory with the tag is parked. Does not block."""
    return _core.is_parked(arguments.text(tag, "tag", "vmart.is_parked"))
