"""A stand-in for the parts of torch.cuda that vmart.torch uses, for machines without a GPU.

Its pools do as PyTorch's caching allocator does: they request segments by the real C functions of
libvmart, on a simulated machine, and split them among tensors. Tensors are real ones of PyTorch's,
on the CPU, whose addresses lie in the simulated HBM: nothing may read or write their elements.
"""

import contextlib
import ctypes
import functools
import os
import sys
import threading
import types
import weakref

try:
    import torch
except ImportError:
    print("SKIPPED: this needs PyTorch")
    sys.exit(77)

MIB = 1 << 20


class Allocator:
    """CUDAPluggableAllocator"""

    made = 0

    def __init__(self, path, malloc, free):
        Allocator.made += 1
        library = ctypes.CDLL(path)
        self.malloc, self.free = getattr(library, malloc), getattr(library, free)
        self.malloc.restype = ctypes.c_void_p
        self.malloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
        self.free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
        self.free.restype = None

    def allocator(self):
        return self


class Segment:
    def __init__(self, begin, nbytes):
        self.begin, self.nbytes = begin, nbytes
        self.free = [(0, nbytes)]
        self.tensors = 0

    def take(self, nbytes):
        for index, (offset, size) in enumerate(self.free):
            if size >= nbytes:
                self.free[index : index + 1] = [(offset + nbytes, size - nbytes)]
                self.tensors += 1
                return self.begin + offset
        return None


class Pool:
    """MemPool. Segments go back when neither it nor a tensor is left; see `World.collect`."""

    def __init__(self, allocator=None, use_on_oom=False, no_split=False):
        self.device, self.no_split = WORLD.device, no_split
        self.allocator = allocator
        self.segments = []
        self.id = (0, id(self))
        self.users = 1
        WORLD.pools[self.id] = self.segments, self.device, allocator
        WORLD.made[self.id] = weakref.ref(self)
        weakref.finalize(self, WORLD.drop, self.id)

    def use_count(self):
        return self.users

    def allocate(self, nbytes):
        nbytes = max(512, -(-nbytes // 512) * 512)
        for segment in self.segments:
            begin = segment.take(nbytes)
            if begin is not None:
                return segment, begin
        rounded = -(-nbytes // (2 * MIB)) * 2 * MIB
        size = 2 * MIB if nbytes <= MIB else 20 * MIB if nbytes < 10 * MIB else rounded
        size = rounded if self.no_split else size
        begin = self.allocator.malloc(size, self.device, None) if self.allocator else None
        if begin is None:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.segments.append(Segment(begin, size))
        if self.no_split:
            self.segments[-1].free, self.segments[-1].tensors = [], 1
            return self.segments[-1], begin
        return self.segments[-1], self.segments[-1].take(nbytes)


class World:
    """What is current, and what was made."""

    def __init__(self):
        self.device = 0
        self.thread = threading.local()
        self.recording = set()
        self.capturing = set()
        self.pools = {}
        self.made = {}
        self.outlived = []  # Segments whose pool is gone, with tensors.
        self.busy = set()

    def stack(self):
        return self.thread.__dict__.setdefault("stack", [])

    def drop(self, pool_id):
        """Frees the segments of a pool, as its destructor does, except those with tensors."""
        if self.recording:  # As PyTorch: captures_underway.empty() INTERNAL ASSERT FAILED.
            print(f"a pool was dropped while {len(self.recording)} record", file=sys.stderr)
            os.abort()
        segments, device, allocator = self.pools.pop(pool_id)
        del self.made[pool_id]
        self.outlived += [(segment, device, allocator) for segment in segments]
        self.collect()

    def collect(self):
        """Frees what outlived its pool and has no tensors any more, as `empty_cache` does."""
        free = [each for each in self.outlived if each[0].tensors == 0]
        self.outlived = [each for each in self.outlived if each[0].tensors]
        for segment, device, allocator in free:
            allocator.free(segment.begin, segment.nbytes, device, None)


WORLD = World()


class Stream:
    """Never destroyed, as those of PyTorch."""

    def __init__(self, device=None, handle=None):
        import vmart

        index = WORLD.device if device is None else torch.device(device).index
        self.device = torch.device("cuda", index)
        self.cuda_stream = vmart.make_stream(vmart.gpu(index)) if handle is None else handle

    def query(self):
        assert self.cuda_stream not in WORLD.capturing, "a query ends the capture"
        return self.cuda_stream not in WORLD.busy

    def __enter__(self):
        WORLD.thread.stream = self
        return self

    def __exit__(self, *_):
        WORLD.thread.stream = default_stream(WORLD.device)


class ExternalStream(Stream):
    def __init__(self, handle, device=None):
        super().__init__(device, handle)


@functools.cache
def default_stream(index):
    """Not the handle 0 of PyTorch's, for which a context would have to be current."""
    return Stream(f"cuda:{index}")


def current_stream(device=None):
    index = device if isinstance(device, int) else torch.device(device).index if device else WORLD.device
    stream = getattr(WORLD.thread, "stream", None)
    return stream if stream is not None and stream.device.index == index else default_stream(index)


def set_stream(stream):
    if stream is not None:
        WORLD.device = stream.device.index
        WORLD.thread.stream = stream


@contextlib.contextmanager
def stream_context(stream):
    before = current_stream()
    torch.cuda.set_stream(stream)
    try:
        yield
    finally:
        torch.cuda.set_stream(before)


@contextlib.contextmanager
def device_context(device):
    before = WORLD.device
    WORLD.device = device if isinstance(device, int) else torch.device(device).index
    try:
        yield
    finally:
        WORLD.device = before


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    assert pool.id not in WORLD.recording, "beginAllocateToPool: already recording to mempool_id"
    assert pool.device == (WORLD.device if device is None else device)
    WORLD.recording.add(pool.id)
    WORLD.stack().append(pool)
    try:
        yield
    finally:
        assert WORLD.stack().pop() is pool
        WORLD.recording.remove(pool.id)


class Graph:
    """CUDAGraph"""


def _retain(cuda_graph, pool):
    def let_go():
        if pool() is not None:
            pool().users -= 1

    pool().users += 1
    weakref.finalize(cuda_graph, let_go)


@contextlib.contextmanager
def graph(cuda_graph, pool=None, stream=None, capture_error_mode="global"):
    segments, device, allocator = WORLD.pools[pool]
    inner = types.SimpleNamespace(
        allocator=allocator, device=device, segments=segments, no_split=False, id=pool
    )
    inner.allocate = types.MethodType(Pool.allocate, inner)
    _retain(cuda_graph, WORLD.made[pool])
    assert pool not in WORLD.recording
    WORLD.recording.add(pool)
    WORLD.stack().append(inner)
    try:
        yield
    finally:
        WORLD.stack().pop()
        WORLD.recording.remove(pool)


def tensor(nbytes):
    """A tensor of bytes that the current pool has given; freed with the last reference to it."""
    assert WORLD.stack(), "no pool is current"
    segment, begin = WORLD.stack()[-1].allocate(nbytes)
    raw = (ctypes.c_uint8 * nbytes).from_address(begin)
    weakref.finalize(raw, _given_back, segment, begin, nbytes)
    return torch.frombuffer(raw, dtype=torch.uint8)


def _given_back(segment, begin, nbytes):
    nbytes = max(512, -(-nbytes // 512) * 512)
    segment.tensors -= 1
    segment.free.append((begin - segment.begin, nbytes))


def install():
    cuda = torch.cuda
    cuda.MemPool, cuda.use_mem_pool, cuda.graph, cuda.CUDAGraph = Pool, use_mem_pool, graph, Graph
    cuda.memory.CUDAPluggableAllocator = Allocator
    cuda.current_device = lambda: WORLD.device
    cuda.empty_cache, cuda.synchronize = WORLD.collect, lambda device=None: None
    cuda.device, cuda.stream, cuda.set_stream = device_context, stream_context, set_stream
    cuda.default_stream = default_stream
    cuda.current_stream, cuda.Stream, cuda.ExternalStream = current_stream, Stream, ExternalStream
    cuda.is_current_stream_capturing = lambda: current_stream().cuda_stream in WORLD.capturing
    zeros = torch.zeros
    torch.zeros = lambda *shape, device=None, **options: (
        zeros(*shape, **options) if str(device).startswith("cuda") else zeros(*shape, device=device, **options)
    )
    return cuda
