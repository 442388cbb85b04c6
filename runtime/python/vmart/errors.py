"""The exceptions of vmart: one class for each kind of error, all of them `Error`."""

from __future__ import annotations

from typing import Any


class Error(RuntimeError):
    """An error of the library, or of the driver beneath it.

    `kind` is the kind as the documentation names it, `call` the call that failed ("vma::alloc",
    "cuMemCreate"), `native` the driver's code or 0. `report` says what a failed migration did; None
    for other errors.
    """

    kind = "internal"

    def __init__(self, text: str, call: str = "", native: int = 0, report: Any = None) -> None:
        super().__init__(text)
        self.call = call
        self.native = native
        self.report = report


class InvalidArgument(Error, ValueError):
    kind = "invalid_argument"


class UnknownPointer(Error, LookupError):
    """The address is not in memory of vmart, or the memory was freed."""

    kind = "unknown_pointer"


class Unreachable(Error):
    """A GPU that uses the memory cannot reach the place."""

    kind = "unreachable"


class OutOfMemory(Error, MemoryError):
    kind = "out_of_memory"


class Busy(Error):
    """Running work did not stop in time. Nothing is lost: try again, or with a longer deadline."""

    kind = "busy"


class Pinned(Error):
    kind = "pinned"


class Cancelled(Error):
    kind = "cancelled"


class Poisoned(Error):
    """A move failed in a way that cost the memory its place; its bytes can still be read."""

    kind = "poisoned"


class NoDriver(Error):
    """There is no NVIDIA driver. `vmart.open_runtime(driver="sim:h200x2")` simulates a machine."""

    kind = "no_driver"


class DriverGone(Error):
    """The runtime was shut down, or the process ends."""

    kind = "driver_gone"


class DriverFailure(Error):
    kind = "driver_failure"


class Unsupported(Error, NotImplementedError):
    kind = "unsupported"


class Dropped(Error):
    """The memory was parked without its bytes: `vmart.resume` gives it memory again."""

    kind = "dropped"


class PeerFailure(Error, ConnectionError):
    kind = "peer_failure"


class NotPermitted(Error, PermissionError):
    kind = "not_permitted"


_CLASSES = {
    made.kind: made
    for made in (
        InvalidArgument, UnknownPointer, Unreachable, OutOfMemory, Busy, Pinned, Cancelled,
        Poisoned, NoDriver, DriverGone, DriverFailure, Unsupported, Dropped, PeerFailure,
        NotPermitted,
    )
}  # fmt: skip


def error_of(kind: str, text: str, call: str, native: int, report: Any) -> Error:
    """The exception for an error of the library. Called by the extension."""
    return _CLASSES.get(kind, Error)(text, call, native, report)


__all__ = ["Error", "error_of", *sorted(made.__name__ for made in _CLASSES.values())]
