"""Functions of the driver that Python's ctypes finds once vmart is open are guards.

ctypes_test.py LIBVMART.SO      with the directory of the simulated libcuda.so.1 in LD_LIBRARY_PATH
"""

import ctypes
import sys
import unittest

LIBRARY = sys.argv.pop(1)


class Place(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("ordinal", ctypes.c_int)]


def file_of(function):
    """The file that the function lies in."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            if begin <= address < end:
                return line.split()[-1]
    return ""


class Ctypes(unittest.TestCase):
    def test_functions(self):
        cuda = ctypes.CDLL("libcuda.so.1")
        before = ctypes.CDLL("libcuda.so.1").cuMemcpyDtoD_v2
        self.assertEqual(cuda.cuInit(0), 0)
        vmart = ctypes.CDLL(LIBRARY)
        memory = ctypes.c_void_p()
        self.assertEqual(vmart.vmart_alloc(ctypes.c_size_t(4 << 20), Place(0, 0), ctypes.byref(memory)), 0)
        for name in ("cuMemcpyAsync", "cuMemcpyHtoD_v2", "cuMemsetD8_v2", "cuPointerGetAttribute"):
            self.assertIn("libvmart.so", file_of(cuda[name]), name)
        self.assertIn("libcuda.so", file_of(cuda.cuStreamCreate))
        # It lies on Python's heap: docs/guide/promises.md says so.
        self.assertIn("libcuda.so", file_of(before))
        context = ctypes.c_void_p()
        self.assertEqual(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), 0)
        self.assertEqual(cuda.cuCtxSetCurrent(context), 0)
        self.assertEqual(cuda.cuMemsetD8_v2(memory, 9, ctypes.c_size_t(16)), 0)
        words = (ctypes.c_ubyte * 16)()
        self.assertEqual(cuda.cuMemcpyDtoH_v2(words, memory, ctypes.c_size_t(16)), 0)
        self.assertEqual(list(words), [9] * 16)
        vmart.vmart_free(memory)


if __name__ == "__main__":
    unittest.main()
