"""Traces for replays: generated, imported, or written event by event. docs/reference/traces.md says what events mean."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
import numbers
import operator
import os
import pathlib
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import Any

import vmart.arguments as arguments  # Not from vmart, which would load the extension.
from vmart.errors import InvalidArgument
from vmart.lab.errors import extension, said_by
from vmart.reprs import bytes_text

__all__ = ["Trace", "TraceWriter", "generate", "generators", "import_", "trace_of"]

_USES = ("read", "write", "read_write")
_INTEGERS = ("object", "task", "after_task", "repeat", "request")
_WRITER = "vmart.lab.TraceWriter"


class Trace:
    """A trace in a file: `path`, in either of the two forms, also gzip-compressed. One that was made without a path is in
    a temporary file, which ends with this object. May be used by several threads, and by several replays at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = pathlib.Path(path)
        self._owner: weakref.finalize[[str, int], Trace] | None = None
        self._told: dict[str, Any] = {}  # What a replay has said of it, which saves reading it for the summary.

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """What the trace has: `name`, `origin`, `licence`, `made`; `events`, and `counts` of each kind; `begin_ns` and
        `end_ns`; `bytes_live_max` (allocated at once), `bytes_read`, `bytes_written`; `objects_live` (at the end);
        `gpus` (ordinals that it names), `unplaced` (accesses whose device the router chooses). Of an imported one also `bad_lines`
        and `first_bad_lines`, each with `line` and `reason`; of others `faults`, the first events that do not fit. Reads the whole file once, without the GIL. Raises `vmart.InvalidArgument` for a damaged one."""
        with said_by("vmart.lab.Trace"):
            return json.loads(extension("vmart.lab.Trace").describe(str(self.path)))

    @property
    def name(self) -> str:
        """The name in its header; without one, that of its file."""
        return (self._told or self.summary)["name"] or self.path.stem

    @property
    def closed_loop(self) -> bool:
        """Whether its tasks wait for each other, so that placement changes how long it takes."""
        return self._told["closed_loop"] if self._told else self.summary["counts"]["task"] > 0

    @property
    def seconds(self) -> float:
        """From its first event to its last, as written there."""
        return (self.summary["end_ns"] - self.summary["begin_ns"]) / 1e9

    def __reduce__(self) -> Any:
        known = {name: self.__dict__[name] for name in ("summary", "_told") if name in self.__dict__}
        return Trace, (str(self.path),), known  # For other processes; the file, as long as this object is there.

    def __repr__(self) -> str:
        where = "temporary" if self._owner else repr(str(self.path))
        try:
            told = self.summary
        except Exception as error:  # A repr that raises would hide what it is called for.
            return f"<vmart.lab.Trace {where}: {error}>"
        loop = "closed loop" if self.closed_loop else "open loop"
        return (f"<vmart.lab.Trace {self.name!r} ({where}): {told['events']} events in {self.seconds:.6g} s, {loop}, at most "
                f"{bytes_text(told['bytes_live_max'])} at once>")  # fmt: skip


def trace_of(trace: Any, call: str) -> Trace:
    """A `Trace`, or the path of one."""
    if isinstance(trace, Trace):
        return trace
    if isinstance(trace, TraceWriter):
        return trace.trace
    if isinstance(trace, (str, os.PathLike)):
        return Trace(trace)
    raise TypeError(f"{call}: trace is a {type(trace).__name__}; it may be a path, or what vmart.lab.generate returns")


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # A forked child has the object, too.
        shutil.rmtree(folder, ignore_errors=True)


def _place_for(path: Any, call: str) -> Trace:
    """The trace that is to be written."""
    if path is not None:
        if not str(path).endswith((".vtrace", ".jsonl")):
            raise InvalidArgument(f"{call}: {os.fspath(path)}: must end in .vtrace or .jsonl", call)
        return Trace(path)
    folder = tempfile.mkdtemp(prefix="vmart-lab-")
    made = Trace(pathlib.Path(folder) / "trace.vtrace")
    made._owner = weakref.finalize(made, _remove, folder, os.getpid())
    return made


def generate(
    kind: str, path: str | os.PathLike[str] | None = None, *, seed: int = 1, **parameters: float | str
) -> Trace:
    """A synthetic trace, as `vmart-lab generate`: equal arguments give equal bytes.

    `kind` is "moe", "phase-change", "pipeline", "producer-consumer", "rebalance", "serving" or "zipf-drift"; `path` ends in
    .vtrace or .jsonl, and without it the trace is temporary. Parameters are numbers, and sizes may be texts:
    `generate("zipf-drift", gpus=4, object_bytes="64MiB")`; `generators()` lists them. Raises `vmart.InvalidArgument`
    for a kind or parameter that there is not, or a value out of its bounds. Blocks, without the GIL.
    """
    call = "vmart.lab.generate"
    made = _place_for(path, call)
    values = [f"{name}={_number(value, name, call)}" for name, value in parameters.items()]
    seed = arguments.integer(seed, "seed", call)
    with said_by(call):
        extension(call).generate(arguments.text(kind, "kind", call), values, seed, str(made.path))
    return made


def generators() -> dict[str, dict[str, Any]]:
    """What `generate` makes: the `meaning` of each kind, and its `parameters` by name, each with `default`, `least`,
    `most` and `meaning`."""
    return json.loads(extension("vmart.lab.generators").generators())


def _number(value: Any, name: str, call: str) -> str:
    if isinstance(value, str) and name.endswith("_bytes"):
        value = arguments.size(value, name, call)
    if isinstance(value, (str, bool)):
        return str(int(value)) if isinstance(value, bool) else value
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{call}: {name} is {value!r}; it may be a number") from None
    return str(int(number)) if number.is_integer() else repr(number)


def import_(
    form: str,
    source: str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
    *,
    seed: int = 1,
    bad_lines_max: int = 100,
    program: str | os.PathLike[str] | None = None,
    **parameters: float | str,
) -> Trace:
    """The trace that a file of another format becomes, as by `vmart-lab convert`: `import_("mooncake", "requests.jsonl")`.

    `vmart-lab convert --help` lists the formats and their parameters. `path` ends in .vtrace or .jsonl, and without it the
    trace is temporary. `program` is `vmart-lab`, if it is not beside this package or in PATH. Raises ValueError with what the
    program says: which file and line, or which parameter, is wrong. Blocks, without the GIL.
    """
    from vmart.lab.importing import convert

    made = _place_for(path, "vmart.lab.import_")
    made.__dict__["summary"] = convert(form, source, made.path, seed, bad_lines_max, program, parameters)
    return made


class TraceWriter:
    """Writes a trace event by event, in any order of time:

        with vmart.lab.TraceWriter("mine.vtrace", name="two objects") as writer:
            writer.alloc(0, 1, "64MiB", tag="kv")
            writer.access(0.001, 1, device=0, use="write")
            writer.free(2, 1)
        vmart.lab.replay(writer.trace, policy="auto")

    Times are seconds since the trace began, rounded to ns. Objects and tasks are numbers of yours, sizes numbers of bytes or
    texts, places as everywhere ("gpu0", "host1"). Leaving `with` completes the file and checks that events fit each other;
    if the block raises, the file keeps what it had. Without a path, the trace is temporary. Events are held in memory (about
    100 bytes each) until `advance` or the end. Each method raises `vmart.InvalidArgument` for an event that is wrong by
    itself, `advance` and `close` for one that does not fit the others. One thread at a time.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, name: str = "", origin: str = "", licence: str = ""
    ) -> None:
        self._trace = _place_for(path, _WRITER)
        name = name or ("" if path is None else self._trace.path.stem)
        with said_by(_WRITER):
            self._lines = extension(_WRITER).LineWriter(str(self._trace.path), name, origin, licence, _WRITER)
        self._sizes: dict[int, int] = {}
        self._numbers = itertools.count(1)
        self._finished = False

    @property
    def trace(self) -> Trace:
        """The finished trace. Raises `vmart.InvalidArgument` before `close`."""
        if not self._finished:
            raise InvalidArgument(f"{_WRITER}: the trace is not finished; leave its with block, or call close()", _WRITER)
        return self._trace

    def alloc(self, time: float, object: int, nbytes: int | str, *, tag: str = "", chunk: int | str | None = None,
              home: Any = None, after_task: int | None = None) -> None:  # fmt: skip
        """An object is created. `home` is its initial place, which the policy chooses otherwise; `chunk` the size of its
        chunks. With `after_task`, it happens when that task has ended."""
        object = _integer(object, "object")
        size = self._sizes[object] = arguments.size(nbytes, "nbytes", _WRITER, least=1)
        self._add("alloc", time, object=object, bytes=size, tag=tag or None, home=_home(home), after_task=after_task,
                  chunk_bytes=None if chunk is None else arguments.size(chunk, "chunk", _WRITER, least=1))  # fmt: skip

    def free(self, time: float, object: int, *, after_task: int | None = None) -> None:
        """The object ends."""
        self._add("free", time, object=object, after_task=after_task)

    def access(self, time: float, object: int, nbytes: int | str | None = None, *, offset: int | str = 0,
               use: str = "read", passes: float = 1, duration: float = 0, device: Any = None,
               task: int | None = None) -> None:  # fmt: skip
        """A GPU goes over a range of the object (all of it) `passes` times, within `duration` seconds or as fast as memory
        allows. Without a `device`, the router chooses. Accesses of a task directly follow its `task`, at its time."""
        self._use("access", time, object, nbytes, offset, device, use=arguments.choice(use, "use", _WRITER, _USES),
                  passes=_passes(passes), task=task, duration_ns=_nanoseconds(duration, "duration") or None)  # fmt: skip

    def hint(self, time: float, object: int, nbytes: int | str | None = None, *, offset: int | str = 0,
             next_use: float | None = None, passes: float = 1, until: float | None = None, read_mostly: bool = False,
             device: Any = None, task: int | None = None, after_task: int | None = None) -> None:  # fmt: skip
        """The program announces its use of a range, as by `vmart.advise`; times count from the hint."""
        self._use("hint", time, object, nbytes, offset, device, passes=_passes(passes), task=task,
                  after_task=after_task, use="read" if read_mostly else None,
                  next_use_ns=None if next_use is None else _nanoseconds(next_use, "next_use"),
                  until_ns=None if until is None else _nanoseconds(until, "until"))  # fmt: skip

    def place(self, time: float, object: int, home: Any, nbytes: int | str | None = None, *,
              offset: int | str = 0) -> None:  # fmt: skip
        """The range lies at `home` from now on, at no cost."""
        self._use("place", time, object, nbytes, offset, None, home=_home(home))

    def tag(self, time: float, object: int, tag: str) -> None:
        """Changes the object's tag."""
        self._add("tag", time, object=object, tag=arguments.text(tag, "tag", _WRITER))

    def mark(self, time: float, text: str, *, after_task: int | None = None) -> None:
        """A new phase of the whole trace begins."""
        self._add("mark", time, tag=arguments.text(text, "text", _WRITER), after_task=after_task)

    def task(self, time: float, *, compute: float = 0, after: int | Iterable[int] = (), repeat: int = 1, request: int = 0,
             device: Any = None, tag: str = "") -> int:  # fmt: skip
        """Declares a task of a closed loop; returns its number. It starts at `time` or when the tasks in `after`, or the one, have ended,
        does its accesses, which follow with `task=` that number, within `compute` seconds, and that `repeat` times."""
        number = next(self._numbers)
        self._add("task", time, task=number, after=_tasks(after) or None, compute_ns=_nanoseconds(compute, "compute") or None,
                  repeat=None if repeat == 1 else repeat, request=request or None, device=_gpu(device),
                  tag=tag or None)  # fmt: skip
        return number

    def advance(self, time: float) -> None:
        """Says that no earlier event follows, so that those need no memory any more."""
        time_ns = _nanoseconds(time, "time")
        with said_by(_WRITER):
            self._lines.advance(time_ns)

    def close(self) -> Trace:
        """Completes the file and returns the trace. Idempotent."""
        if not self._finished:
            with said_by(_WRITER):
                self._lines.finish()
            self._finished = True
        return self._trace

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, raised: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if raised is None:
            self.close()

    def _use(self, event: str, time: float, object: int, nbytes: Any, offset: Any, device: Any, **members: Any) -> None:
        object = _integer(object, "object")
        begin = arguments.size(offset, "offset", _WRITER)
        if nbytes is None:
            with contextlib.suppress(KeyError):
                nbytes = self._sizes[object] - begin
        if nbytes is None:
            raise InvalidArgument(f"{_WRITER}: there is no object {object}; alloc it before its {event}", _WRITER)
        self._add(event, time, object=object, offset=begin or None, device=_gpu(device),
                  bytes=arguments.size(nbytes, "nbytes", _WRITER, least=1), **members)  # fmt: skip

    def _add(self, event: str, time: float, **members: Any) -> None:
        if self._finished:
            raise InvalidArgument(f"{_WRITER}: the trace is finished", _WRITER)
        given = {key: _integer(value, key) if key in _INTEGERS else value for key, value in members.items() if value is not None}
        line = json.dumps({"event": event, "time_ns": _nanoseconds(time, "time"), **given})
        with said_by(_WRITER):
            self._lines.add(line)


def _nanoseconds(time: float, name: str) -> int:
    seconds = arguments.seconds(time, name, _WRITER)
    return math.floor(seconds * 1e9 + 0.5)


def _integer(value: Any, name: str) -> int:
    return arguments.integer(value, name, _WRITER, most=(1 << 64) - 1)  # Also of NumPy, which JSON does not take.


def _tasks(after: Any) -> list[int]:
    if isinstance(after, Iterable) and not isinstance(after, str):
        return [_integer(each, "after") for each in after]
    return [_integer(after, "after")]


def _passes(value: Any) -> float | None:
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise TypeError(f"{_WRITER}: passes is {value!r}, a {type(value).__name__}; it may be a number")
    if not math.isfinite(value):
        raise InvalidArgument(f"{_WRITER}: passes is {value}; it may be a finite number", _WRITER)
    return None if value == 1 else float(value)


def _home(place: Any) -> str | None:
    if place is None:
        return None
    from vmart.place import as_place

    return str(as_place(place))


def _gpu(device: Any) -> int | None:
    if device is None:
        return None
    with contextlib.suppress(TypeError):
        return operator.index(device)
    from vmart.place import as_place

    place = as_place(device)
    if place.kind != "gpu":
        raise InvalidArgument(f'{_WRITER}: device is {device!r}; it may be a GPU, such as "gpu0"', _WRITER)
    return place.ordinal
