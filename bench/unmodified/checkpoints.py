"""Moves a whole process to another GPU with the driver's checkpoints, as `cuda-checkpoint` does: lock,
checkpoint to host memory, restore with GPUs swapped, unlock. For comparison only."""

import ctypes
import time

RESTORE_RESERVED, OTHER_RESERVED = 52 - ctypes.sizeof(ctypes.c_void_p), 64


class Uuid(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 16)]


class GpuPair(ctypes.Structure):
    _fields_ = [("old", Uuid), ("new", Uuid)]


class LockArguments(ctypes.Structure):
    _fields_ = [("timeout_ms", ctypes.c_uint), ("reserved0", ctypes.c_uint),
                ("reserved1", ctypes.c_uint64 * 7)]


class RestoreArguments(ctypes.Structure):
    _fields_ = [("pairs", ctypes.POINTER(GpuPair)), ("count", ctypes.c_uint),
                ("reserved", ctypes.c_char * RESTORE_RESERVED), ("reserved1", ctypes.c_uint64)]


class Refused(RuntimeError):
    """The driver cannot do it, or cannot do it here."""


class Checkpoints:
    """Throws: Refused if the driver has no checkpoints."""

    def __init__(self):
        try:
            self.driver = ctypes.CDLL("libcuda.so.1")
            self.driver.cuCheckpointProcessLock
        except (OSError, AttributeError) as error:
            raise Refused(f"the driver has no checkpoints: {error}") from error
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
        nothing = ctypes.create_string_buffer(OTHER_RESERVED)
        begin = time.monotonic()
        self.call("cuCheckpointProcessLock", process, ctypes.byref(LockArguments(10_000)))
        try:
            self.call("cuCheckpointProcessCheckpoint", process, nothing)
            self.call("cuCheckpointProcessRestore", process,
                      ctypes.byref(RestoreArguments(pairs, len(uuids))))
        finally:
            self.driver.cuCheckpointProcessUnlock(process, nothing)
        return time.monotonic() - begin
