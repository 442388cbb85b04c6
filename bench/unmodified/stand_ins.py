"""What programs that stand in for others begin with: the driver, a context on GPU 0, and a way to call."""

CONTEXT = r"""
import ctypes
driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
def call(name, *arguments):
    assert getattr(driver, name)(*arguments) == 0, name
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
"""
