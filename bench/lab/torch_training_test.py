#!/usr/bin/env python3
"""torch_training_test.py LIBVMART.SO VMART-LAB: what the training step does with the library, without
PyTorch and on a simulated machine: its states go to the peer and to the host, and the recording that it
leaves has the uses that it reports."""

import collections
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import torch_training
from harness.vmart_calls import GPU, Library, Place

MIB = 1 << 20


class Tensor:
    """The memory of one."""

    def __init__(self, vmart, size_bytes):
        pointer = ctypes.c_void_p()
        vmart.call("vmart_alloc", ctypes.c_size_t(size_bytes), Place(GPU, 0),
                   ctypes.byref(pointer))
        self.pointer, self.nbytes = pointer.value, size_bytes

    def data_ptr(self):
        return self.pointer


class Program(unittest.TestCase):
    """What is recorded: a process of its own, since a recording is complete at its end."""

    def test_states_go_away_and_uses_are_reported(self):
        vmart = Library(LIBRARY)
        tensors = [Tensor(vmart, 4 * MIB) for _ in range(4)]
        moved = torch_training.spread(vmart, [tensors[0], tensors[0], tensors[1], tensors[2]])
        self.assertEqual(moved, 12 * MIB)
        at, places = Place(), []
        for tensor in tensors:
            vmart.call("vmart_where", ctypes.c_void_p(tensor.data_ptr()), ctypes.byref(at))
            places.append(str(at))
        self.assertEqual(places, ["gpu(1)", "host(0)", "gpu(1)", "gpu(0)"])
        uses = torch_training.Uses(vmart.library)
        uses.tensors(tensors, torch_training.READ)
        uses.on = True
        uses.tensors(tensors, torch_training.READ_WRITE)
        self.assertEqual(uses.count, 4)
        time.sleep(0.1)  # Uses of memory that is freed before the scheduler looks are not recorded.
        for tensor in tensors:
            vmart.call("vmart_free", ctypes.c_void_p(tensor.data_ptr()))


class Recording(unittest.TestCase):
    def test_has_the_places_and_the_uses(self):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "VMART_DRIVER": "sim:h200x2", "VMART_POLICY": "stay_put",
                           "VMART_RECORD": folder}
            subprocess.run([sys.executable, "-B", __file__, LIBRARY, LAB, "Program"],
                           env=environment, check=True)
            [recording] = pathlib.Path(folder).glob("*.rec")
            trace = pathlib.Path(folder) / "trace.jsonl"
            subprocess.run([LAB, "convert", "recording", str(recording), str(trace)], check=True,
                           stdout=subprocess.DEVNULL)
            lines = [json.loads(line) for line in trace.read_text().splitlines()]
        events = collections.defaultdict(list)
        for line in lines:
            events[line.get("event")].append(line)
        self.assertEqual(sorted(line["home"] for line in events["place"]),
                         ["gpu(1)", "gpu(1)", "host(0)"])
        self.assertEqual([(line["device"], line["bytes"], line["use"]) for line in events["access"]],
                         [(0, 4 * MIB, "read_write")] * 4)
        self.assertEqual(len({line["object"] for line in events["access"]}), 4)


if __name__ == "__main__":
    LIBRARY, LAB = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *(sys.argv[3:] or ["Recording"])])
