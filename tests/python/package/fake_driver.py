"""Loads the libcuda.so.1 of fake_driver.cpp, so that cuda.core and Numba themselves run on a machine without a
GPU, with the memory of a simulated one. Import it before them. Copies carry bytes; no kernels run."""

import ctypes
import os
import sys

from vmart import _core

PATH = os.environ.get("FAKE_DRIVER", "")
if not os.path.exists(PATH):
    print("SKIPPED: FAKE_DRIVER, which ctest sets, names no library that was built")
    sys.exit(77)
os.environ["NUMBA_CUDA_DRIVER"] = PATH

_driver = ctypes.CDLL(PATH)  # Who opens libcuda.so.1 later gets this one.
_library = ctypes.CDLL(_core.library_path())
_Copy = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t)


@_Copy
def _copy(target, source, nbytes):
    """Either may be memory of vmart, which the CPU cannot touch where it lies."""
    between = ctypes.create_string_buffer(nbytes)
    size = ctypes.c_size_t(nbytes)
    if _library.vmart_read(ctypes.c_void_p(source), between, size) != 0:
        ctypes.memmove(between, source, nbytes)
    if _library.vmart_write(ctypes.c_void_p(target), between, size) != 0:
        ctypes.memmove(target, between, nbytes)
    return 0


_driver.fake_driver_copies(_copy)


def current_context():
    """The handle of this thread's context, or None."""
    handle = ctypes.c_void_p()
    _driver.cuCtxGetCurrent(ctypes.byref(handle))
    return handle.value
