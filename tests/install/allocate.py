#!/usr/bin/env python3
"""Allocates by the driver's interface, and prints which files of vmart are then mapped."""

import ctypes

cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
for call, arguments in ((cuda.cuInit, (0,)), (cuda.cuDevicePrimaryCtxRetain, (ctypes.byref(context), 0)),
                        (cuda.cuCtxSetCurrent, (context,)),
                        (cuda.cuMemAlloc_v2, (ctypes.byref(memory), ctypes.c_size_t(64 << 20)))):
    if (result := call(*arguments)) != 0:
        raise SystemExit(f"{call.__name__}: {result}")
with open("/proc/self/maps", encoding="ascii") as maps:
    print(*sorted({line.split()[-1] for line in maps if "vmart" in line}), sep="\n")
