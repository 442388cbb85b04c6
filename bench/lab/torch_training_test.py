#!/usr/bin/env python3
"""torch_training_test.py LIBVMART.SO: what the training step does with the library, without PyTorch and
on a simulated machine: its states go to the peer and to the host, and the uses that it reports count."""

import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCH / "lab"), str(BENCH), str(BENCH.parent / "examples")]
import torch_training
from torch_pool import Location
from vmart_calls import Library

MIB = 1 << 20


class Tensor:
    """The memory of one."""

    def __init__(self, vmart, size_bytes):
        pointer = ctypes.c_void_p()
        vmart.call("vmart_alloc", ctypes.c_size_t(size_bytes), Location(torch_training.GPU, 0),
                   ctypes.byref(pointer))
        self.pointer, self.nbytes = pointer.value, size_bytes

    def data_ptr(self):
        return self.pointer


class Steps(unittest.TestCase):
    def test_states_go_away_and_uses_are_recorded(self):
        vmart = Library(LIBRARY)
        tensors = [Tensor(vmart, 4 * MIB) for _ in range(4)]
        moved = torch_training.spread(vmart, [tensors[0], tensors[0], tensors[1], tensors[2]])
        self.assertEqual(moved, 12 * MIB)
        at, places = Location(), []
        for tensor in tensors:
            vmart.call("vmart_where", ctypes.c_void_p(tensor.data_ptr()), ctypes.byref(at))
            places.append(str(at))
        self.assertEqual(places, ["gpu(1)", "host(0)", "gpu(1)", "gpu(0)"])
        uses = torch_training.Uses(vmart.library)
        uses.tensors(tensors, torch_training.READ)
        uses.on = True
        uses.tensors(tensors, torch_training.READ_WRITE)
        self.assertEqual(uses.count, 4)
        for tensor in tensors:
            vmart.call("vmart_free", ctypes.c_void_p(tensor.data_ptr()))


def leaves_a_recording(library):
    """Whether the test, in a process of its own, passes and leaves a recording at its end."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "VMART_DRIVER": "sim:h200x2", "VMART_POLICY": "stay_put",
                       "VMART_RECORD": folder}
        done = subprocess.run([sys.executable, "-B", __file__, library, "--recorded"],
                              env=environment, check=False)
        return done.returncode == 0 and len(list(pathlib.Path(folder).glob("*.rec"))) == 1


if __name__ == "__main__":
    LIBRARY = sys.argv.pop(1)
    if "--recorded" not in sys.argv:
        sys.exit(0 if leaves_a_recording(LIBRARY) else 1)
    sys.argv.remove("--recorded")
    unittest.main()
