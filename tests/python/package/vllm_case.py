"""A simulated machine with the pools of fake_cuda.py and the vLLM of fake_vllm.py, for the tests of
vmart.vllm."""

import contextlib
import ctypes
import gc
import os
from unittest import mock

import fake_cuda
import fake_vllm
from fake_cuda import MIB, tensor
from machine_case import OnAMachine
from vllm_worker import Worker

import torch
import vmart
from vmart.vllm import register

fake_cuda.install()
gc.freeze()  # Each sleep collects garbage: not among all objects of PyTorch.
WINDOW = 4096


class SimulatedMemory:
    def __init__(self):
        self.library = ctypes.CDLL(vmart._core.library_path())
        for call in (self.library.vmart_read, self.library.vmart_write):
            call.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]

    make = staticmethod(tensor)

    def pointer(self, made):
        return made.data_ptr()

    def windows(self, made):
        """Some of each MiB: all of it takes the simulator long."""
        begin, nbytes = made.data_ptr(), made.nbytes
        return [*range(begin, begin + nbytes - WINDOW, MIB), begin + nbytes - WINDOW]

    def fill(self, made, byte):
        for address in self.windows(made):
            assert self.library.vmart_write(address, bytes([byte]) * WINDOW, WINDOW) == 0

    def byte(self, made):
        """That all bytes have."""
        seen, out = set(), ctypes.create_string_buffer(WINDOW)
        for address in self.windows(made):
            assert self.library.vmart_read(address, out, WINDOW) == 0
            seen.update(out.raw)
        (byte,) = seen
        return byte

    def free_bytes(self):
        return sum(
            place.capacity_bytes - place.allocated_bytes - place.cached_bytes
            for place in vmart.stats().places
            if place.at.kind == "gpu"
        )


class WithVllm(OnAMachine):
    """A vLLM whose plugins are loaded, with VMART_VLLM=1."""

    def setUp(self):
        self.addCleanup(self.forget)
        during = contextlib.ExitStack()
        self.addCleanup(during.close)
        self.vllm = during.enter_context(fake_vllm.installed())
        during.enter_context(mock.patch.dict(os.environ, {"VMART_VLLM": "1"}))
        self.cumem = self.vllm.device_allocator.cumem
        self.backends = self.vllm.device_allocator.sleep_mode_backend
        self.memory = SimulatedMemory()

    def forget(self):
        gc.collect()
        vmart.torch.release()
        torch.cuda.empty_cache()
        self.assertEqual([info.tag for info in vmart.allocations()], [], "memory is left behind")
        self.assertEqual(vmart.stats().leaked, 0)

    def allocator(self):
        self.assertTrue(register())
        return self.vllm.device_allocator.get_mem_allocator_instance()

    def started(self, backend="vmart"):
        self.allocator()
        factory = self.backends.SleepModeBackendFactory
        worker = Worker(self.memory, self.vllm.device_allocator, factory, backend).start()
        worker.fill_buffer()
        self.addCleanup(worker.shutdown)
        return worker

    def capacity(self, place, nbytes):
        vmart.trim(place)
        vmart.set_capacity(place, nbytes)
        self.addCleanup(vmart.set_capacity, place, 1 << 40 if place == "host0" else 1 << 37)

    def mapped(self, allocator):
        """As in vLLM's tests."""
        return sum(row.handle[1] for row in allocator.pointer_to_data.values() if not row.is_asleep)
