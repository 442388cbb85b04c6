"""libvmart and structures of <vma/vmart.h>, for the benchmarks that call it from Python."""

import ctypes
import pathlib
import sys

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
import torch_pool  # Before torch: it sets what torch reads once.
from torch_pool import Place

GPU, HOST = 0, 1  # VMART_GPU, VMART_HOST


class Library:
    """Like `torch_pool.Vmart`, without PyTorch."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.vmart_last_error.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        if getattr(self.library, name)(*arguments) != 0:
            raise RuntimeError(self.library.vmart_last_error().decode())


class MigrateOptions(ctypes.Structure):
    """`vmart_migrate_options`."""
    _fields_ = [("size_bytes", ctypes.c_size_t), ("mode", ctypes.c_int32), ("scope", ctypes.c_int32),
                ("deadline_ms", ctypes.c_int64), ("priority", ctypes.c_int32),
                ("reserve_first", ctypes.c_int32), ("nothing_runs", ctypes.c_int32),
                ("wait_for_pins", ctypes.c_int32), ("paranoid", ctypes.c_int32),
                ("max_stall_us", ctypes.c_int32), ("all_or_nothing", ctypes.c_int32),
                ("copy_share_percent", ctypes.c_int32)]


class MigrationReport(ctypes.Structure):
    """`vmart_migration_report`."""
    _fields_ = [("size_bytes", ctypes.c_size_t), ("bytes_asked", ctypes.c_uint64),
                ("bytes_moved", ctypes.c_uint64), ("bytes_copied_twice", ctypes.c_uint64),
                ("outcome", ctypes.c_int32), ("chunks", ctypes.c_int32),
                ("chunks_moved", ctypes.c_int32), ("chunks_live", ctypes.c_int32),
                ("retries", ctypes.c_int32), ("gates", ctypes.c_int32),
                ("wall_ns", ctypes.c_int64), ("stall_median_ns", ctypes.c_int64),
                ("stall_p99_ns", ctypes.c_int64), ("stall_max_ns", ctypes.c_int64),
                ("status", ctypes.c_int32), ("reserved", ctypes.c_int32)]


class MoveRequest(ctypes.Structure):
    """`vmart_move_request`."""
    _fields_ = [("size_bytes", ctypes.c_size_t), ("pointer", ctypes.c_void_p),
                ("offset", ctypes.c_size_t), ("bytes", ctypes.c_size_t), ("to", Place)]


def allocations_of(vmart, tensors):
    """The size of each allocation that has one of the tensors, by its address."""
    sizes = {}
    for tensor in tensors:
        base, size = ctypes.c_void_p(), ctypes.c_size_t()
        vmart.call("vmart_base", ctypes.c_void_p(tensor.data_ptr()), ctypes.byref(base), ctypes.byref(size))
        sizes[base.value] = size.value
    return sizes


def report_of(vmart, migration):
    """The report of a migration; `vmart` is a `torch_pool.Vmart`."""
    report = MigrationReport(size_bytes=ctypes.sizeof(MigrationReport))
    vmart.call("vmart_migration_report_get", migration, ctypes.byref(report))
    return report


def move_many(vmart, pointers, to, options=None):
    """Moves the allocations with one `vmart_migrate_many`. Returns the report of all together."""
    requests = (MoveRequest * len(pointers))(
        *(MoveRequest(ctypes.sizeof(MoveRequest), pointer, 0, 0, to) for pointer in pointers))
    total = MigrationReport(size_bytes=ctypes.sizeof(MigrationReport))
    vmart.call("vmart_migrate_many", requests, ctypes.c_size_t(len(pointers)),
               None if options is None else ctypes.byref(options), ctypes.byref(total), None)
    return total
