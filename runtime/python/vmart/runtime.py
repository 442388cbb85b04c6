"""The process-wide runtime: opening it with options, what it holds, its scheduler, and what keeps
memory in place."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from vmart import _core, arguments
from vmart._core import Guard
from vmart.errors import Error, InvalidArgument, in_python
from vmart.place import as_place
from vmart.targets import find, ranges_of

__all__ = [
    "Guards", "Policy", "advise", "allocations", "attach", "calibrate", "copy_scope", "description",
    "destroy_stream", "detach", "drain", "explain", "export_allocation", "import_allocation", "is_open",
    "make_stream", "note_export", "on_move", "open_runtime", "pause_scheduler", "pin",
    "places", "policy", "read_only", "record_use", "refill", "reserve", "resume_scheduler", "scheduler_stats",
    "set_capacity", "set_policy", "shutdown", "stats", "step_scheduler", "synchronize", "trim",
]  # fmt: skip

from vmart._core import (
    allocations, description, places, pause_scheduler, policy, resume_scheduler, scheduler_stats,
    shutdown, stats, step_scheduler,
)  # fmt: skip
from vmart._core import runtime_is_open as is_open


class Policy:
    """Base of placement policies written in Python.

    A subclass has any of these methods; the scheduler calls them from its own thread:

    - `on_tick(snapshot, plan)`: about every 10 ms (`tick` of `open_runtime`);
    - `on_use(chunk, device, bytes_read, bytes_written, snapshot, plan)`: a GPU used a chunk;
    - `on_pressure(at, nbytes, snapshot, plan)`: a place needs room; `plan.evict` names victims;
    - `on_alloc(nbytes, device, tag, snapshot)`: returns where new memory goes, or None;
    - `on_result(chunk, source, target, moved, took, stall, snapshot)`, `on_gone(chunk)`.

    `device`, `source`, `target` and `at` are places, sizes bytes, times seconds. Where it names a place, a policy may
    write a text: "gpu1". `snapshot` and `plan` are valid during the call. Chunks are numbers: `snapshot.chunk(number)`.
    `vmart.lab.replay` takes the same class.
    `parameters` names the arguments of the class with their defaults, all of them numbers; they are
    set as in `policy="MostUsed:least=1e6"`. An exception drops the plan and is counted in
    `scheduler_stats().policy_failures`.
    """

    parameters: Mapping[str, float] = {}


_CALLS = ("on_alloc", "on_gone", "on_pressure", "on_result", "on_tick", "on_use")


def require_calls(made: type, call: str) -> None:
    """Refuses a policy with a method that looks like a call of the scheduler, but is none."""
    for name in dir(made):
        if name.startswith("on_") and name not in _CALLS and callable(getattr(made, name, None)):
            raise InvalidArgument(
                f"{made.__name__} has {name}, which nobody calls; a policy has {', '.join(_CALLS)}", call
            )


def policy_kind(
    made: type[Policy],
    call: str,
    make: Callable[..., Policy] | None = None,
    passes_on: bool = False,
) -> _core.PolicyKind:
    """What the registries of policies know of the class; `make` is called in its place. What it raises
    is counted, or passed on to who called the C++."""
    try:
        defaults = {str(name): float(value) for name, value in made.parameters.items()}
    except (AttributeError, TypeError, ValueError):
        raise InvalidArgument(
            f"{made.__name__}.parameters is {made.parameters!r}; it may be a dict of names and numbers", call
        ) from None
    for name in defaults:
        if name not in inspect.signature(made).parameters:
            raise InvalidArgument(
                f"{made.__name__}.parameters has {name}, which its constructor does not take", call
            )
    require_calls(made, call)
    return _core.policy_kind(made.__name__, defaults, make or made, passes_on)


_OPTIONS: dict[str, Callable[[Any, str, str], Any]] = {
    "tick": arguments.seconds, "max_stall": arguments.seconds, "stall_budget": arguments.seconds,
    "dry_run": arguments.flag, "control": arguments.text, "timeline": arguments.text,
    "cache_bytes_per_gpu": arguments.size, "host_cache_bytes": arguments.size,
    "copy_share_percent": lambda value, name, call: arguments.integer(value, name, call, least=1, most=100),
}  # fmt: skip


def open_runtime(
    *,
    driver: str = "",
    devices: Iterable[int] = (),
    capacity: Mapping[Any, int | str] | None = None,
    policy: str | type[Policy] = "",
    policies: Iterable[type[Policy]] = (),
    **options: Any,
) -> None:
    """Opens the runtime with options, which go before the environment variables. Call it before
    anything else of vmart; without it, the runtime opens at first use.

    `driver` is "cuda" or a simulated machine such as "sim:h200x2". `policy` decides in the background
    what lies where: a name ("auto"), or a subclass of `Policy`. `capacity` limits places:
    `{"gpu0": "20GiB"}`. Other options: `tick`, `max_stall`
    and `stall_budget` in seconds, `dry_run`, `control` ("auto" for the tool `vmart`), `timeline`,
    `cache_bytes_per_gpu`, `host_cache_bytes`, `copy_share_percent`: those of `vma::RuntimeOptions`.

    Raises `Busy` if it is open already, `NoDriver`, `InvalidArgument`. Blocks for the driver.
    """
    call = "vmart.open_runtime"
    checked = arguments.options(options, _OPTIONS, call)
    made = list(policies)
    if isinstance(policy, type):
        made.append(policy)
        policy = policy.__name__
    _core.open_runtime(
        driver=arguments.text(driver, "driver", call),
        devices=[arguments.integer(device, "devices", call) for device in devices],
        capacity={
            str(as_place(place)): arguments.size(nbytes, f"capacity of {place}", call)
            for place, nbytes in (capacity or {}).items()
        },
        policy=arguments.text(policy, "policy", call),
        policies=[policy_kind(each, call) for each in made],
        **checked,
    )


def set_policy(policy: str) -> None:
    """Another policy decides from now on, by its name: "auto", "cost_benefit:horizon=2s", or the name of
    a class that `open_runtime` got. Needs a runtime that was opened with a policy."""
    _core.set_policy(arguments.text(policy, "policy", "vmart.set_policy"))


# --- Streams and uses

_INVALID_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT.


def stream_handle(stream: Any) -> int:
    """The handle of a stream of PyTorch, CuPy, Numba or cuda.core, or a number. None: the default."""
    if stream is None:
        return 0
    if isinstance(stream, int):
        return arguments.integer(stream, "stream", "vmart.attach", most=(1 << 64) - 1)
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int((protocol() if callable(protocol) else protocol)[1])
    for name in ("cuda_stream", "ptr", "handle"):
        handle = getattr(stream, name, None)
        if handle is not None:
            return int(getattr(handle, "value", handle) or 0)
    raise InvalidArgument(f"{type(stream).__name__} is no CUDA stream", "vmart.attach")


def make_stream(gpu: Any) -> int:
    """The handle of a new stream of the GPU, for programs that have no library with streams, and for
    simulated machines. `synchronize` waits for its work, `destroy_stream` ends it."""
    return _core.make_stream(as_place(gpu))


def destroy_stream(stream: Any) -> None:
    """Ends a stream that `make_stream` made. Detach it first."""
    _core.destroy_stream(stream_handle(stream))


def synchronize(stream: Any = None) -> None:
    """Waits for the work that is enqueued on the stream. Blocks, without the GIL."""
    with _device_of(stream):
        _core.synchronize(stream_handle(stream))


def _device_of(stream: Any) -> contextlib.AbstractContextManager[Any]:
    """Makes the GPU of a stream current: the default streams of all GPUs have one handle."""
    library = type(stream).__module__.partition(".")[0]
    if library == "torch":
        return sys.modules["torch"].cuda.device(stream.device)
    if library == "cupy" and stream.device_id >= 0:
        return sys.modules["cupy"].cuda.Device(stream.device_id)
    return contextlib.nullcontext()


@contextlib.contextmanager
def _with_a_context(call: str) -> Iterator[None]:
    try:
        yield
    except Error as error:
        if error.native != _INVALID_CONTEXT:
            raise
        raise InvalidArgument(
            f"{call}: this thread has used no GPU yet, so there is no default stream: use the GPU first, such as "
            'by torch.zeros(1, device="cuda") or cupy.zeros(1), or pass a stream',
            call,
            error.native,
        ) from None


def attach(stream: Any = None, *, graphs: bool = True) -> None:
    """Says that work on the stream uses memory of vmart. No move needs that; if all streams that use it
    are attached, `migrate_async` and policies can stop them alone, at gates. `graphs=False` promises that
    no CUDA graphs are launched on it. Without a stream: the default one of the current device. A handle 0
    is that of the current device, too. Never synchronises. Legal while the stream captures, but no other
    thread may begin a capture on it during this call."""
    with _device_of(stream), _with_a_context("vmart.attach"):
        _core.attach(stream_handle(stream), arguments.flag(graphs, "graphs", "vmart.attach"))


def detach(stream: Any = None) -> None:
    """Takes an attach back. Detach a stream before it is destroyed."""
    with _device_of(stream), _with_a_context("vmart.detach"):
        _core.detach(stream_handle(stream))


@contextlib.contextmanager
def copy_scope() -> Iterator[None]:
    """Goes around copies and fills of memory that may move meanwhile, such as
    `tensor.copy_(other)` and `tensor.zero_()`:

        with vmart.copy_scope():
            weights.copy_(loaded, non_blocking=True)

    The runtime does so by itself for the calls of all libraries; this is for VMART_COPY_GUARDS=0, and for
    functions of the driver that ctypes had found before the runtime opened (docs/guide/promises.md). Blocks
    while work is stopped so that a chunk can be switched, and at most 50 ms more. Keep it short, and call nothing of
    vmart inside: make tensors before.
    """
    _core.copy_begin()
    try:
        yield
    finally:
        _core.copy_end()


def _gpu_of(device: Any, call: str) -> Any:
    """The place of a GPU: the CPU's accesses are not those that policies weigh."""
    gpu = as_place(device)
    if gpu.kind != "gpu":
        raise InvalidArgument(f"{call}: device is {device!r}; it may be a GPU, such as \"gpu0\"", call)
    return gpu


def record_use(what: Any, device: Any, kind: str = "read") -> None:
    """Tells policies that work on a GPU uses the memory; `kind` is "read", "write", "read_write" or
    "unknown". Call it where the work is enqueued. Does not block."""
    gpu = _gpu_of(device, "vmart.record_use")
    arguments.choice(kind, "kind", "vmart.record_use", ("read", "write", "read_write", "unknown"))
    for memory in ranges_of(what):
        _core.record_use(memory.begin, memory.nbytes or find(memory).nbytes, gpu, kind)


def advise(
    what: Any,
    device: Any,
    *,
    next_use: float | None = None,
    passes: float = 1.0,
    read_mostly: bool = False,
    until: float | None = None,
) -> None:
    """Tells policies what is known about future uses. Times are in seconds from now; `next_use=None`:
    unknown. The last advice for a range counts. Raises `UnknownPointer`. Does not block."""
    call = "vmart.advise"
    gpu = _gpu_of(device, call)
    for name, value in (("next_use", next_use), ("until", until)):
        if value is not None:
            arguments.seconds(value, name, call)
    for memory in ranges_of(what):
        nbytes = memory.nbytes or find(memory).nbytes
        _core.advise(memory.begin, nbytes, gpu, next_use, passes, read_mostly, until)


# --- What keeps memory in place, or follows it


class Guards:
    """Keeps what made it until `release()`, or the end of its `with` block."""

    def __init__(self, guards: Iterable[Guard]) -> None:
        self._guards = list(guards)

    @property
    def released(self) -> bool:
        return all(guard.released for guard in self._guards)

    def __repr__(self) -> str:
        state = "released" if self.released else f"holding {len(self._guards)}"
        return f"<vmart.Guards: {state}>"

    def release(self) -> None:
        """Idempotent. May wait for a callback in another thread."""
        for guard in self._guards:
            guard.release()

    def __enter__(self) -> Guards:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _each(what: Any, make: Callable[[int], Guard]) -> Guards:
    """A guard for each allocation. If one is refused, those before it are released again."""
    made: list[Guard] = []
    try:
        for pointer in dict.fromkeys(find(memory).pointer for memory in ranges_of(what)):
            made.append(make(pointer))
    except BaseException:
        Guards(made).release()
        raise
    return Guards(made)


def pin(what: Any) -> Guards:
    """The memory does not move while this object exists: `with vmart.pin(tensor): ...`. Blocks while
    a chunk of it is being switched."""
    return _each(what, _core.pin)


def read_only(what: Any) -> Guards:
    """No device can write the memory while this object exists, so that it moves faster beside running
    work. A kernel that writes it fails."""
    return _each(what, _core.read_only)


def on_move(
    what: Any,
    before: Callable[[_core.MoveEvent], Any] | None = None,
    after: Callable[[_core.MoveEvent], Any] | None = None,
) -> Guards:
    """Calls functions before and after each chunk moves, for memory that is registered by its physical
    location (NCCL, RDMA). They run on the thread that moves. If `before` raises, the chunk stays,
    and the move fails with that text. Raises `Unsupported` while memory with `cpu_access="fault"` exists: a
    thread that waits for such memory holds the GIL, which a hook needs."""
    return _each(what, lambda pointer: _core.on_move(pointer, before, after))


def note_export(what: Any) -> None:
    """Says that the memory was registered elsewhere: it does not move until `on_move` follows it."""
    for memory in ranges_of(what):
        _core.note_export(find(memory).pointer)


def export_allocation(what: Any) -> _core.Exported:
    """Lets other processes of this user import the allocation: pass `path` to their
    `import_allocation`. Ends with `release()`."""
    ranges = ranges_of(what)
    if len(ranges) != 1:
        raise InvalidArgument(
            f"vmart.export_allocation: {len(ranges)} ranges were named; export each by itself",
            "vmart.export_allocation",
        )
    (memory,) = ranges
    return _core.export_allocation(find(memory).pointer)


def import_allocation(path: str) -> _core.Allocation:
    """The memory that another process exported at the path. It ends with this object, and follows the
    moves of the exporter. Raises `PeerFailure`, `NotPermitted`."""
    return _core.import_allocation(arguments.text(path, "path", "vmart.import_allocation"))


# --- Places


def reserve(at: Any, nbytes: int | str, chunk_bytes: int | str = 0) -> None:
    """Creates memory ahead, so that later allocations and moves find it. Raises `OutOfMemory`."""
    call = "vmart.reserve"
    _core.reserve(
        as_place(at),
        arguments.size(nbytes, "nbytes", call, least=1),
        arguments.size(chunk_bytes, "chunk_bytes", call),
    )


def trim(at: Any) -> int:
    """Gives cached memory back to the driver; returns the bytes."""
    return _core.trim(as_place(at))


def set_capacity(at: Any, nbytes: int | str | None) -> None:
    """Limits what the runtime allocates at the place from now on: `set_capacity("gpu0", "20GiB")`.
    Without a limit: None."""
    call = "vmart.set_capacity"
    most = None if nbytes is None else arguments.size(nbytes, "nbytes", call)
    _core.set_capacity(as_place(at), most)


def drain(at: Any, deadline: float = 60.0) -> _core.DrainReport:
    """Moves everything away from the place and lets nothing move there until `refill`. Needs a
    policy. Blocks until done or for `deadline` seconds, without the GIL."""
    return _core.drain(as_place(at), arguments.seconds(deadline, "deadline", "vmart.drain"))


def refill(at: Any) -> None:
    """Ends a `drain`: memory may move to the place again."""
    _core.refill(as_place(at))


def explain(what: Any) -> list[str]:
    """Readable lines: where the memory lies, who uses it, what was decided about it, and what keeps it
    from moving. Needs a policy."""
    return [in_python(line) for memory in ranges_of(what) for line in _core.explain(memory.begin)]


def calibrate(
    *, bytes_per_place: int | str = 0, time_limit: float = 2.0, store: bool = True
) -> tuple[str, list[str]]:
    """Measures what copies, accesses and moves cost on this machine, for policies. Returns the file
    that keeps it, and what had to be estimated. Takes seconds."""
    call = "vmart.calibrate"
    return _core.calibrate(
        arguments.size(bytes_per_place, "bytes_per_place", call),
        arguments.seconds(time_limit, "time_limit", call),
        arguments.flag(store, "store", call),
    )
