"""A Python program that allocates by the driver: allocating.py PyDLL|CDLL. A call through a PyDLL
keeps the lock of the interpreter; through a CDLL it releases the lock, as most frameworks do."""

import ctypes
import sys

BYTES = 32 << 20


def check(result):
    if result != 0:
        sys.exit(f"the driver returned {result}")


def make_weights(driver):
    pointer = ctypes.c_uint64()
    check(driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(BYTES)))
    return pointer


def make_model(driver):
    return make_weights(driver)


def main():
    driver = getattr(ctypes, sys.argv[1])("libcuda.so.1")
    context = ctypes.c_void_p()
    check(driver.cuInit(0))
    check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(driver.cuCtxSetCurrent(context))
    weights = make_model(driver)
    print("ready", flush=True)
    sys.stdin.readline()
    check(driver.cuMemFree_v2(weights))
    print("end")


main()
