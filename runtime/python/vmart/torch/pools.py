"""Pools of PyTorch whose segments are memory of vmart.

PyTorch calls an allocator with a size, a GPU and a stream only, so what else a segment should be is
an option of the thread: `vmart_torch_segments_begin` in <vma/vmart_torch.h>. PyTorch allocates
segments of a pool only on a thread that is inside the pool's context, where they are set.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from vmart import _core
from vmart.errors import InvalidArgument, error_of
from vmart.place import Place, gpu, as_place
from vmart.torch import streams

__all__ = [
    "LARGEST_CHUNKS", "Segments", "capturing", "graph", "memory", "of_pytorch", "outside", "place_by_size", "read",
    "release",
]  # fmt: skip

# `vma::largest_chunks`
LARGEST_CHUNKS = ctypes.c_size_t(-1).value


class _Place(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("ordinal", ctypes.c_int)]

    @classmethod
    def of(cls, place: Place) -> _Place:
        return cls(0 if place.kind == "gpu" else 1, place.ordinal)


class _Options(ctypes.Structure):
    """`vmart_torch_segment_options`"""

    _fields_ = [
        ("size_bytes", ctypes.c_size_t),
        ("tag", ctypes.c_char_p),
        ("chunk_bytes", ctypes.c_size_t),
        ("large_bytes", ctypes.c_size_t),
        ("at", _Place),
        ("large_at", _Place),
        ("elsewhere", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(_core.library_path())
    library.vmart_last_error.restype = ctypes.c_char_p
    return library


def _call(name: str, *arguments: Any) -> None:
    library = _library()
    if getattr(library, name)(*arguments) != 0:
        text = library.vmart_last_error().decode()  # "vma::alloc: out_of_memory: ..."
        kind = text.split(": ")[1] if text.count(": ") > 1 else "internal"
        raise error_of(kind, text, name, 0, None)


def read(source: int, target: int, nbytes: int) -> None:
    """Copies from memory of vmart, wherever it lies, to memory of the CPU."""
    _call("vmart_read", ctypes.c_void_p(source), ctypes.c_void_p(target), ctypes.c_size_t(nbytes))


@functools.cache
def _allocator() -> Any:
    """Lives until the process ends: PyTorch crashes if a pool outlives its allocator."""
    allocator = torch.cuda.memory.CUDAPluggableAllocator(
        _core.library_path(), "vmart_torch_malloc", "vmart_torch_free"
    )
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(allocator))
    return allocator


class Segments(NamedTuple):
    """What the segments of a pool are. Pools with equal ones are interchangeable."""

    device: int
    tag: str
    at: Place | None
    chunk_bytes: int
    no_split: bool
    large_bytes: int
    large_at: Place | None

    @contextlib.contextmanager
    def requested(self) -> Iterator[None]:
        """Segments that this thread requests are such ones."""
        options = _Options(ctypes.sizeof(_Options), self.tag.encode())
        options.chunk_bytes = self.chunk_bytes
        if self.at is not None:
            options.elsewhere, options.at = 1, _Place.of(self.at)
        if self.large_at is not None:
            options.large_bytes, options.large_at = self.large_bytes, _Place.of(self.large_at)
        _call("vmart_torch_segments_begin", ctypes.byref(options))
        try:
            yield
        finally:
            _call("vmart_torch_segments_end")

    def make_pool(self) -> Any:
        # A pool belongs to the GPU that is current when it is made. `no_split` is new in PyTorch 2.11.
        with torch.cuda.device(self.device):
            options = {"no_split": True} if self.no_split else {}
            return torch.cuda.MemPool(_allocator().allocator(), **options)


class _Pools:
    """All pools of the process. Any thread.

    PyTorch refuses a pool that records already, on this thread or another one, so each context gets a
    pool that is not in use, a new one if there is none. And it aborts the process if a pool is dropped
    while another one records, so pools are dropped when the last context ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recording_lock = threading.RLock()  # Also held while pools are dropped.
        self._recording = 0
        self._dropped: list[Any] = []
        self._plain: dict[int, list[Any]] = {}  # Without an allocator of vmart.
        self._idle: dict[Segments, list[Any]] = {}
        self._of_graphs: list[tuple[str, Any]] = []
        self._of_captures: dict[Segments, Any] = {}  # Those of `_of_graphs` that graphs share.
        self._thread = threading.local()

    @contextlib.contextmanager
    def entered(self, segments: Segments) -> Iterator[Any]:
        stack = self._stack()
        if stack and stack[-1][0] == segments:  # It records already.
            yield stack[-1][1]
            return
        with self._lock:
            idle = self._idle.get(segments)
            pool = idle.pop() if idle else None
        if pool is None:
            pool = segments.make_pool()
        stack.append((segments, pool))
        try:
            with (
                self.recording(),
                segments.requested(),
                torch.cuda.use_mem_pool(pool, segments.device),
            ):
                yield pool
        finally:
            stack.pop()
            with self._lock:
                self._idle.setdefault(segments, []).append(pool)

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Goes around a use of a pool, and around a capture: no pool is dropped meanwhile."""
        with self._recording_lock:
            self._recording += 1
        try:
            yield
        finally:
            with self._recording_lock:
                self._recording -= 1
            self.drop([])

    @contextlib.contextmanager
    def of_pytorch(self, device: int) -> Iterator[None]:
        with self._lock:
            idle = self._plain.setdefault(device, [])
            pool = idle.pop() if idle else None
        if pool is None:
            pool = torch.cuda.MemPool()
        try:
            with self.outside(), torch.cuda.use_mem_pool(pool):
                yield
        finally:
            with self._lock:
                self._plain[device].append(pool)

    def drop(self, pools: list[Any]) -> None:
        """Empties the list, which has the last references. They go when nothing records any more."""
        with self._lock:
            while pools:
                self._dropped.append(pools.pop())
        with self._recording_lock:
            if self._recording == 0:
                with self._lock:
                    dropped, self._dropped = self._dropped, []
                dropped.clear()  # Outside of the other lock: PyTorch frees segments.

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """This thread records into something else inside, so that contexts inside enter their pools
        anew."""
        self._stack().append((None, None))
        try:
            yield
        finally:
            self._stack().pop()

    def _stack(self) -> list[Any]:
        return self._thread.__dict__.setdefault("stack", [])

    def for_graph(self, segments: Segments) -> Any:
        """A pool of its own: memory of a graph must not be given to anybody else."""
        pool = segments.make_pool()
        with self._lock:
            self._of_graphs.append((segments.tag, pool))
        return pool

    def for_captures(self, segments: Segments) -> Any:
        """The one pool for graphs that share memory."""
        with self._lock:
            known = self._of_captures.get(segments)
        if known is not None:
            return known
        made = self.for_graph(segments)
        with self._lock:
            return self._of_captures.setdefault(segments, made)

    def release(self, tag: str | None) -> None:
        """PyTorch aborts if a pool goes before a graph that retains it: such pools stay."""

        def goes(of: str, pool: Any) -> bool:
            return tag in (None, of) and pool.use_count() == 1

        with self._lock:
            dropped = []
            for segments, pools in self._idle.items():
                dropped += [pool for pool in pools if goes(segments.tag, pool)]
                pools[:] = [pool for pool in pools if not goes(segments.tag, pool)]
            dropped += [pool for of, pool in self._of_graphs if goes(of, pool)]
            self._of_graphs = [pair for pair in self._of_graphs if not goes(*pair)]
            graphs = {id(pool) for _, pool in self._of_graphs}
            self._of_captures = {
                segments: pool for segments, pool in self._of_captures.items() if id(pool) in graphs
            }
        self.drop(dropped)

    def end(self) -> None:
        """At the end of the process, before PyTorch's own objects go."""
        self.release(None)
        with self._lock:
            retained = [pool for pools in self._idle.values() for pool in pools]
            retained += [pool for pools in self._plain.values() for pool in pools]
            for pool in [*retained, *self._dropped, *(pool for _, pool in self._of_graphs)]:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(pool))


_pools = _Pools()
atexit.register(_pools.end)


def _segments(
    tag: str, at: Any, chunk_bytes: int, no_split: bool, device: Any, large_bytes: int, large_at: Any
) -> Segments:
    index = torch.cuda.current_device() if device is None else torch.device(device).index
    if index is None:
        index = torch.cuda.current_device()
    if (large_at is None) != (large_bytes == 0):
        raise InvalidArgument("large_at and large_bytes go together", "vmart.torch.memory")
    place = None if at is None else as_place(at)
    return Segments(
        index, tag, None if place == gpu(index) else place, chunk_bytes, no_split, large_bytes,
        None if large_at is None else as_place(large_at),
    )  # fmt: skip


@contextlib.contextmanager
def memory(
    tag: str = "torch",
    at: Any = None,
    chunk_bytes: int = 0,
    no_split: bool = False,
    device: Any = None,
    *,
    large_bytes: int = 0,
    large_at: Any = None,
    attach: bool = False,
) -> Iterator[Any]:
    """CUDA tensors that this thread makes inside are in memory of vmart, and can move.

        with vmart.torch.memory(tag="weights", at="host1"):    # in a NUMA node, kernels read it there
            weights = torch.empty(1 << 28, device="cuda")

    The pool (a `torch.cuda.MemPool`, the value of `with`) is used again by later contexts with the
    same arguments, and lives until `release`. Contexts nest; the innermost one counts.

    `at` is where memory lies at first: the GPU itself by default. `chunk_bytes` is the unit that moves
    (0: chosen by size). PyTorch puts tensors of up to 10 MiB together into segments, which move as
    chunks; with `no_split` each has its own. Segments of `large_bytes` or more lie at `large_at`.
    `device` is the GPU whose tensors are meant, by default the current one. Addresses of segments
    are multiples of 2 MiB.

    `attach` attaches the GPU's default and current stream, and each stream that the program switches
    to from then on: see `attach_streams`. Only if no other stream uses vmart's memory, those of other
    packages included.

    Raises `InvalidArgument`; PyTorch raises `torch.OutOfMemoryError` if there is no room, or the GPU
    cannot reach `at` (VMART_LOG=info says which). Safe while the GPU's streams capture.
    """
    segments = _segments(tag, at, chunk_bytes, no_split, device, large_bytes, large_at)
    if attach:
        streams.attach_streams().use_current(segments.device)
    with _pools.entered(segments) as pool:
        yield pool


def place_by_size(
    limit: int = 2 << 30, large: Any = "host0", tag: str = "torch", **options: Any
) -> contextlib.AbstractContextManager[Any]:
    """`memory` by size: segments below `limit` bytes on the GPU, larger ones at `large`, where kernels
    read them in place.

        with vmart.torch.place_by_size(2 << 30, large="host0"):
            model = load()             # its weights are in HBM, a cache of 8 GiB at the host

    PyTorch keeps the segment of a large tensor that was freed, and may give a part of it to smaller
    ones: `torch.cuda.empty_cache()` returns it. Other options as of `memory`.
    """
    return memory(tag, large_bytes=limit, large_at=large, **options)


@contextlib.contextmanager
def graph(
    cuda_graph: Any,
    tag: str = "torch",
    at: Any = None,
    chunk_bytes: int = 0,
    *,
    attach: bool = False,
    **options: Any,
) -> Iterator[None]:
    """`torch.cuda.graph` whose memory is vmart's, in a pool of its own. Other arguments are those of
    `torch.cuda.graph`, except `pool`."""
    segments = _segments(tag, at, chunk_bytes, False, None, 0, None)
    if attach:
        streams.attach_streams().use_current(segments.device)
    pool = _pools.for_graph(segments)
    with (
        _pools.outside(),
        _pools.recording(),
        segments.requested(),
        torch.cuda.graph(cuda_graph, pool=pool.id, **options),
    ):
        yield


@contextlib.contextmanager
def capturing(tag: str, chunk_bytes: int = 0) -> Iterator[Any]:
    """Graphs that this thread captures inside into the pool, the value of `with`, have memory of vmart.

        with vmart.torch.pools.capturing("graphs") as pool, torch.cuda.graph(captured, pool=pool.id):

    Equal arguments mean the same pool, on each GPU. As always in PyTorch, graphs of one pool share memory: they
    must not run at the same time.
    """
    segments = _segments(tag, None, chunk_bytes, False, None, 0, None)
    pool = _pools.for_captures(segments)
    with _pools.outside(), _pools.recording(), segments.requested():
        yield pool


def outside() -> contextlib.AbstractContextManager[None]:
    """Goes around a `torch.cuda.use_mem_pool` of another pool that contains contexts of vmart."""
    return _pools.outside()


@contextlib.contextmanager
def of_pytorch() -> Iterator[None]:
    """Tensors that this thread makes inside are PyTorch's own, also inside contexts of vmart. In a pool that is
    used again: PyTorch cannot drop one while another records."""
    with _pools.of_pytorch(torch.cuda.current_device()):
        yield


def release(tag: str | None = None) -> None:
    """Drops the pools with the tag, or all; those in use, and those of graphs that exist, stay. PyTorch
    frees their segments once no tensor is left in them. While any thread is inside `memory` or a capture, they
    go when the last one leaves."""
    _pools.release(tag)
