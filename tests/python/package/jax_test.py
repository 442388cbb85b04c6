#!/usr/bin/env python3
"""JAX arrays over memory of vmart, by DLPack, with JAX itself on the CPU. JAX's own memory does not move."""

import gc
import os
import sys
import time
import unittest

os.environ["JAX_PLATFORMS"] = "cpu"
try:
    import jax
    import numpy as np
except ImportError:
    print("SKIPPED: this needs JAX (PyPI: jax)")
    sys.exit(77)

from machine_case import CHUNK, OnAMachine

import vmart

COUNT = CHUNK  # Of float32: 4 chunks.


class Faulting(OnAMachine):
    """Memory that the CPU faults in, which moves under JAX arrays."""

    def shared(self, **options):
        array = vmart.numpy.zeros(COUNT, "float32", chunk_bytes=CHUNK, **options)
        return array, jax.dlpack.from_dlpack(array)

    def test_it_shares_the_bytes_and_moves(self):
        array, seen = self.shared()
        array[:] = np.arange(COUNT)
        self.assertEqual(seen.unsafe_buffer_pointer(), array.ctypes.data)
        for place in ("gpu0", "gpu1"):
            self.assertEqual(vmart.migrate(seen, place).bytes_named, 4 * COUNT)
            self.assertEqual(set(self.places(seen)), {str(vmart.as_place(place))})
            total = jax.jit(lambda values: (values * 2).sum())(seen)
            self.assertEqual(float(total), float(2 * np.arange(COUNT, dtype="float64").sum()))
            self.assertEqual(set(self.places(seen)), {"host(0)"})

    def test_it_keeps_the_memory_until_it_ends(self):
        array, seen = self.shared(tag="kept")
        del array
        gc.collect()
        self.assertEqual(float(seen.sum()), 0)
        del seen
        gc.collect()
        end = time.monotonic() + 60  # XLA gives its input up on a thread of its own.
        while [info for info in vmart.allocations() if info.tag == "kept"] and time.monotonic() < end:
            pass
        with self.assertRaises(vmart.InvalidArgument):
            vmart.where("kept")

    def test_donation_ends_the_array_and_not_the_memory(self):
        array, seen = self.shared()
        result = jax.jit(lambda values: values + 1, donate_argnums=0)(seen)
        self.assertTrue(seen.is_deleted())
        self.assertEqual((float(result.sum()), float(array.sum())), (COUNT, 0))
        self.assertNotEqual(result.unsafe_buffer_pointer(), array.ctypes.data)
        with self.assertRaises(vmart.UnknownPointer):  # XLA's own memory.
            vmart.migrate(result, "gpu0")

    def test_trees_are_targets(self):
        (_, first), (_, second) = self.shared(), self.shared()
        report = vmart.migrate({"layer": [first], "bias": (second, first)}, "gpu1")
        self.assertEqual(report.bytes_named, 8 * COUNT)

    def test_sixty_four_bits_are_copied(self):
        array = vmart.numpy.zeros(COUNT, "float64")
        self.assertNotEqual(jax.dlpack.from_dlpack(array).unsafe_buffer_pointer(), array.ctypes.data)


class Shown(OnAMachine):
    """Other memory at the host."""

    def test_it_stays_as_long_as_jax_shows_it(self):
        array = vmart.empty(COUNT, "float32", at="host0")
        seen = jax.dlpack.from_dlpack(array.numpy())
        self.assertEqual(seen.unsafe_buffer_pointer(), array.pointer)
        with self.assertRaises(vmart.Pinned):
            vmart.migrate(seen, "gpu0")
        del seen
        gc.collect()
        vmart.migrate(array, "gpu0")
        self.assertEqual(self.places(array), ["gpu(0)"])

    def test_for_cuda_it_is_memory_of_a_gpu(self):
        """Which JAX without CUDA refuses."""
        with self.assertRaisesRegex(RuntimeError, "cuda"):
            jax.dlpack.from_dlpack(vmart.empty(COUNT, "float32", at="gpu1"))


if __name__ == "__main__":
    unittest.main()
