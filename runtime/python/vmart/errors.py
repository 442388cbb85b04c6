"""The exceptions of vmart: one class for each kind of error, all of them `Error`."""

from __future__ import annotations

import re
from typing import Any

import vmart


class Error(RuntimeError):
    """An error of the library, or of the driver beneath it.

    `kind` is the kind as the documentation names it, `call` the call that failed ("vmart.alloc",
    "cuMemCreate"), `native` the driver's code or 0. `report` says what a failed migration did; None
    for other errors.
    """

    kind = "internal"
    _of_library = False  # Its text is C++'s, and is shown in the words of Python.

    def __init__(self, text: str, call: str = "", native: int = 0, report: Any = None) -> None:
        super().__init__(text)  # The extension makes exceptions without this.
        self._call = call
        self.native = native
        self.report = report

    @property
    def call(self) -> str:
        return in_python(self._call) if self._of_library else self._call

    def __str__(self) -> str:
        return in_python(super().__str__()) if self._of_library else super().__str__()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


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


# How messages of the library name what Python spells otherwise.
_SPELLINGS = [
    (re.compile(pattern), spelling)
    for pattern, spelling in (
        (r"\bvma::(?:v1::)?(?:StopScope::(\w+))", r'scope="\1"'),
        (r"\bStopScope::(\w+)", r'scope="\1"'),
        (r"\b(?:vma::)?Mode::(\w+)", r'mode="\1"'),
        (r"\b(?:vma::)?CpuAccess::(\w+)", r'cpu_access="\1"'),
        (r"\b(?:vma::)?StreamWork::no_graphs", "graphs=False"),
        (r"\b(?:vma::)?StreamWork::any", "graphs=True"),
        (r"\b(?:vma::)?ParkContents::drop", "drop=True"),
        (r"\b(?:vma::)?Error::(?:group|report)(?:\(\))?", "error.report"),
        (r"\b(?:vma::)?RuntimeOptions::capacity_bytes", "capacity"),
        (r"\b(?:vma::)?\w+Options::(\w+?)(?:_bytes)?\b", r"\1"),
        (r"\bvma::Runtime: ", "vmart.open_runtime: "),
        (r"\bvma::(?:v1::)?", "vmart."),
        (r"\b([A-Z]\w+)::(\w+)", r"\1.\2"),
    )
]


def in_python(text: str) -> str:
    """A text of the library, in the words of Python and with sizes as people write them."""
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    text = text.replace(_COMPILES, f"{_COMPILES} -I{vmart.get_include()}")
    return _BYTES.sub(_size, text)


_COMPILES = "g++ -std=c++20 -shared -fPIC"  # The headers of a wheel lie in the package.
_BYTES = re.compile(r"\b(\d{4,}) bytes\b")


def _size(match: re.Match[str]) -> str:
    nbytes = int(match[1])
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if nbytes % (1 << shift) == 0:
            return f"{nbytes >> shift} {unit}"
    return match[0]


def error_of(kind: str, text: str, call: str, native: int, report: Any) -> Error:
    """The exception for an error of the library."""
    error = _CLASSES.get(kind, Error)(text, call, native, report)
    error._of_library = True
    return error


__all__ = ["Error", *sorted(made.__name__ for made in _CLASSES.values())]
