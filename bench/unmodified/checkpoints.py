"""Moves a whole process to another GPU with the driver's checkpoints, as `cuda-checkpoint` does: lock,
checkpoint to host memory, restore with GPUs swapped, unlock. Or puts it to sleep and wakes it, with its memory at
the host or, where the driver has custom storage (13.4), in memory of this process. For comparison only."""

import ctypes
import time

POINTER_BYTES, ARGUMENT_BYTES = ctypes.sizeof(ctypes.c_void_p), 64


class Uuid(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 16)]


class GpuPair(ctypes.Structure):
    _fields_ = [("old", Uuid), ("new", Uuid)]


class LockArguments(ctypes.Structure):
    _fields_ = [("timeout_ms", ctypes.c_uint), ("reserved0", ctypes.c_uint),
                ("reserved1", ctypes.c_uint64 * 7)]


class StoredGpu(ctypes.Structure):
    """Memory of a process on one GPU, mapped into this one: `CUcheckpointCustomStoragePerDeviceData`."""
    _fields_ = [("begin", ctypes.c_uint64), ("bytes", ctypes.c_size_t), ("stream", ctypes.c_void_p)]


class StorageInfo(ctypes.Structure):
    _fields_ = [("operation", ctypes.c_void_p), ("gpus", ctypes.POINTER(StoredGpu)), ("count", ctypes.c_uint)]


class CheckpointArguments(ctypes.Structure):
    """Drivers before 13.4 want the storage null, as reserved."""
    _fields_ = [("storage", ctypes.c_void_p), ("reserved", ctypes.c_char * (ARGUMENT_BYTES - POINTER_BYTES))]


class RestoreArguments(ctypes.Structure):
    _fields_ = [("pairs", ctypes.POINTER(GpuPair)), ("count", ctypes.c_uint), ("padding", ctypes.c_uint),
                ("storage", ctypes.c_void_p), ("reserved", ctypes.c_char * (ARGUMENT_BYTES - 2 * POINTER_BYTES - 8))]


class Refused(RuntimeError):
    """The driver cannot do it, or cannot do it here."""


class Unavailable(Refused):
    """The driver has no such calls."""


class Checkpoints:
    """Throws: Unavailable if the driver has no checkpoints."""

    def __init__(self):
        try:
            self.driver = ctypes.CDLL("libcuda.so.1")
            self.driver.cuCheckpointProcessLock
        except (OSError, AttributeError) as error:
            raise Unavailable(f"the driver has no checkpoints: {error}") from error
        self.call("cuInit", 0)

    def call(self, name, *arguments):
        result = getattr(self.driver, name)(*arguments)
        if result != 0:
            raise Refused(f"{name} returned {result}")

    def uuids(self):
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        found = [Uuid() for _ in range(count.value)]
        for number, uuid in enumerate(found):
            self.call("cuDeviceGetUuid_v2", ctypes.byref(uuid), number)
        return found

    def swap_gpus(self, process):
        """Exchanges GPUs 0 and 1 of the process. Returns the seconds for which it was locked."""
        uuids = self.uuids()
        order = [1, 0, *range(2, len(uuids))]
        pairs = (GpuPair * len(uuids))(*(GpuPair(uuids[i], uuids[order[i]])
                                         for i in range(len(uuids))))
        nothing = ctypes.create_string_buffer(ARGUMENT_BYTES)
        begin = time.monotonic()
        self.call("cuCheckpointProcessLock", process, ctypes.byref(LockArguments(10_000)))
        try:
            self.call("cuCheckpointProcessCheckpoint", process, nothing)
            self.call("cuCheckpointProcessRestore", process,
                      ctypes.byref(RestoreArguments(pairs=pairs, count=len(uuids))))
        finally:
            self.driver.cuCheckpointProcessUnlock(process, nothing)
        return time.monotonic() - begin

    def sleep(self, process, storage=None):
        """Takes the process off the GPUs, its memory into the storage or to the host. Returns the seconds that took."""
        begin = time.monotonic()
        self.call("cuCheckpointProcessLock", process, ctypes.byref(LockArguments(10_000)))
        info = ctypes.POINTER(StorageInfo)()
        arguments = CheckpointArguments(storage=ctypes.addressof(info) if storage else None)
        self.call("cuCheckpointProcessCheckpoint", process, ctypes.byref(arguments))
        if storage:
            self.transfer(info.contents, storage.save)
        return time.monotonic() - begin

    def wake(self, process, storage=None):
        """Puts it back onto the same GPUs. Returns the seconds that took."""
        begin = time.monotonic()
        info = ctypes.POINTER(StorageInfo)()
        arguments = RestoreArguments(storage=ctypes.addressof(info) if storage else None)
        self.call("cuCheckpointProcessRestore", process, ctypes.byref(arguments))
        if storage:
            self.transfer(info.contents, storage.load)
        self.call("cuCheckpointProcessUnlock", process, ctypes.create_string_buffer(ARGUMENT_BYTES))
        return time.monotonic() - begin

    def transfer(self, info, copy):
        for number in range(info.count):
            copy(number, info.gpus[number])
        self.call("cuCheckpointOperationComplete", ctypes.c_void_p(info.operation))


class PinnedStorage:
    """Page-locked memory of this process, kept between sleeps, for what a process has on each GPU. Throws: Unavailable
    if the driver has no custom storage. This process needs the primary context of each GPU of the other one."""

    def __init__(self, checkpoints):
        if not hasattr(checkpoints.driver, "cuCheckpointOperationComplete"):
            raise Unavailable("the driver has no custom storage; that of CUDA 13.4 has it")
        self.checkpoints, self.kept = checkpoints, {}

    def save(self, number, gpu):
        memory, size = self.kept.get(number, (None, 0))
        if size < gpu.bytes:
            if memory:
                self.checkpoints.call("cuMemFreeHost", memory)
            memory = ctypes.c_void_p()
            self.checkpoints.call("cuMemHostAlloc", ctypes.byref(memory), ctypes.c_size_t(gpu.bytes), 0)
            self.kept[number] = memory, gpu.bytes
        self.checkpoints.call("cuMemcpyDtoHAsync_v2", memory, ctypes.c_uint64(gpu.begin), ctypes.c_size_t(gpu.bytes),
                              ctypes.c_void_p(gpu.stream))

    def load(self, number, gpu):
        memory, _ = self.kept[number]
        self.checkpoints.call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(gpu.begin), memory, ctypes.c_size_t(gpu.bytes),
                              ctypes.c_void_p(gpu.stream))
