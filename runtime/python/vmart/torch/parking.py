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

__all__ = ["Paused", "Resumed", "Tags"]


class Paused(NamedTuple):
    """What a pause did, in bytes. `residue_bytes` is memory in HBM that vmart holds afterwards: of other
    tags, and its cache."""

    freed_bytes: int
    host_bytes: int
    residue_bytes: int


class Resumed(NamedTuple):
    """What a resume did, in bytes. Part of `bytes` came back as zeros, and part to another GPU because
    its own was full. `host_bytes` of the tags lie at the host afterwards, because the program or a
    policy had moved them there."""

    bytes: int
    zeroed_bytes: int
    elsewhere_bytes: int
    host_bytes: int


class Tags:
    """The tags of vmart that begin with a prefix, for one interface of the process.

    `pause` and `resume` undo what they did if a part fails, whatever is raised. Whether the bytes of
    a tag are kept is decided when it is paused, and stays so until it is resumed in full. Any
    thread; one call at a time.
    """

    def __init__(self, prefix: str, call: str, shown: Callable[[str], str]) -> None:
        """`call` and `shown(tag)` name the interface and its tags in errors."""
        self.prefix = prefix
        self._call = call
        self._shown = shown
        self._lock = threading.Lock()
        self._dropped: set[str] = set()  # Of the paused tags: bytes not kept.

    def allocations(self) -> list[_core.AllocationInfo]:
        return [info for info in _core.allocations() if info.tag.startswith(self.prefix)]

    def present(self) -> set[str]:
        """The tags that have memory."""
        return {info.tag for info in self.allocations()}

    def any_paused(self) -> bool:
        return any(moving.is_parked(tag) for tag in self.present())

    def pause(self, drops: Mapping[str, bool]) -> Paused:
        """Gives the HBM of the tags to the driver. True: their bytes are not kept.

        Raises `Error`, `OutOfMemory` if the host has no room, with `report`. Bytes that were not to
        be kept may be lost then.
        """
        with self._lock:
            before, moved = _in_hbm(), 0
            done: list[str] = []
            # Kept ones first: undoing them loses nothing. What is paused already is not undone.
            for tag in sorted(drops, key=lambda tag: (drops[tag], tag)):
                was_paused = moving.is_parked(tag)
                with self._undoing(done, moving.resume):
                    if not was_paused:
                        done.append(tag)
                        (self._dropped.add if drops[tag] else self._dropped.discard)(tag)
                    # Dropping would also drop what was kept before.
                    report = moving.park(tag, drop=tag in self._dropped)
                    if report.stayed:
                        raise self._refused("pause", tag, report)
                moved += report.bytes_moved - report.bytes_dropped
            after = _in_hbm()
            return Paused(max(0, before - after), moved, after)

    def resume(self, tags: Iterable[str], clean_copies: Collection[str] = ()) -> Resumed:
        """Gives the tags memory again, with what was kept, or zeros. `clean_copies`: those whose copies
        at the host stay, for the next pause. What is not paused stays as it is.

        Raises `OutOfMemory` with `report` if a part finds no room.
        """
        with self._lock, contextlib.ExitStack() as held:

            def pause_again(tag: str) -> None:
                held.close()
                moving.park(tag, drop=tag in self._dropped)

            came, zeroed, elsewhere = 0, 0, 0
            done: list[str] = []
            for tag in sorted(each for each in tags if moving.is_parked(each)):
                with self._undoing(done, pause_again):
                    done.append(tag)
                    report = moving.resume(tag, keep_clean_copy=tag in clean_copies)
                    if report.stayed:
                        raise self._refused("resume", tag, report)
                    # Else the next one may evict it again.
                    held.enter_context(runtime.pin(tag))
                came += report.bytes_moved
                zeroed += report.bytes_dropped
                elsewhere += report.bytes_elsewhere
            return Resumed(came, zeroed, elsewhere, self._at_host(done) if done else 0)

    @staticmethod
    @contextlib.contextmanager
    def _undoing(done: list[str], how: Callable[[str], Any]) -> Iterator[None]:
        """Whatever is raised inside, what was done before is undone."""
        try:
            yield
        except BaseException:
            for tag in reversed(done):
                with contextlib.suppress(InvalidArgument):  # Nothing of it had moved.
                    how(tag)
            raise

    def _at_host(self, tags: Collection[str]) -> int:
        extents = [part for info in self.allocations() if info.tag in tags for part in info.extents]
        return sum(part.nbytes for part in extents if part.at.kind == "host" and not part.dropped)

    def _refused(self, verb: str, tag: str, report: Any) -> Error:
        reasons = "; ".join(f"{part.nbytes} bytes: {part.reason}" for part in report.stayed)
        failed = OutOfMemory if "out_of_memory" in reasons else Error
        text = f'tag "{self._shown(tag)}" could not {verb} in full, so nothing did: {reasons}'
        return failed(text, f"{self._call}.{verb}", 0, report)


def _in_hbm() -> int:
    places = [place for place in _core.stats().places if place.at.kind == "gpu"]
    return sum(place.allocated_bytes + place.cached_bytes for place in places)
