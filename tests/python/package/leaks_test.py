#!/usr/bin/env python3
"""Nothing is left of what a program made and gave up: no Python object, no reference, no memory of
vmart.

Each case repeats what programs do and looks for anything that grows with the repetitions: blocks of
Python's allocator, references to the types of the extension (an instance holds one), allocations. What
grows in C++ alone is seen by valgrind_test.py.
"""

import gc
import itertools
import sys
import unittest

from machine_case import CHUNK, OnAMachine

import vmart
from vmart import _core

ROUNDS = 40
TYPES = [kind for kind in vars(_core).values() if isinstance(kind, type)]


class Counts:
    """What can grow."""

    def __init__(self):
        gc.collect()
        self.instances = {kind.__name__: sys.getrefcount(kind) for kind in TYPES}
        self.allocations = len(vmart.allocations())
        gc.collect()
        # This cache keeps the names of attributes that were looked up, up to 4096 of them.
        clear = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache
        clear()
        self.blocks = sys.getallocatedblocks()


class Watches(vmart.Policy):
    """Looks at all that a policy sees."""

    ticks = 0

    def on_tick(self, snapshot, plan):
        Watches.ticks += 1
        for number in snapshot.chunks:
            chunk = snapshot.chunk(number)
            plan.move(number, chunk.at, 1.0, f"{chunk.users}")


class NothingIsLeft(OnAMachine):
    @classmethod
    def options(cls):
        return {"policy": "stay_put", "policies": [Watches], "tick": 3600.0}

    def after(self, what):
        """Of many rounds of `what`. A leak leaves something in each round; what the interpreter keeps,
        it keeps in the first ones."""
        counts = [Counts()]
        for _ in range(3):
            for _ in range(ROUNDS):
                what()
            counts.append(Counts())
        last, before = counts[-1], counts[1]
        grown = {
            name: last.instances[name] - count
            for name, count in before.instances.items()
            if last.instances[name] - count > ROUNDS // 2  # A callback may run on for a while.
        }
        self.assertEqual(grown, {}, "instances of these types are left")
        self.assertEqual(last.allocations, before.allocations)
        blocks = [now.blocks - then.blocks for then, now in itertools.pairwise(counts)]
        self.assertLess(min(blocks), ROUNDS // 2, f"objects of Python are left: {blocks}")

    def test_of_memory_and_its_views(self):
        def use():
            memory = vmart.alloc(CHUNK, "host0", tag="mine", zeroed=True)
            memory.write(b"bytes", 7)
            view = memoryview(memory)
            del view
            array = vmart.empty((4, 8), "int32", at="gpu0")
            self.assertEqual(array.__cuda_array_interface__["shape"], (4, 8))
            array.__dlpack_device__()
            capsule = vmart.empty(10, "float32", at="gpu1").__dlpack__(stream=-1)
            del capsule
            memory.free()

        self.after(use)

    def test_of_moves_and_what_follows_them(self):
        memory = self.made()
        stream = self.attached()

        def use():
            seen = []
            with vmart.on_move(memory, after=seen.append):
                report = vmart.migrate(memory, "gpu1")
            self.assertEqual(len(seen), 3)
            migration = vmart.migrate_async([memory], "gpu0", on_progress=lambda progress: None)
            migration.add_done_callback(seen.append)
            self.assertEqual(migration.wait().outcome, report.outcome)
            with vmart.pin(memory), self.assertRaises(vmart.Pinned):
                vmart.migrate(memory, "gpu1")
            vmart.advise(memory, device="gpu0")
            vmart.where(memory), vmart.stats(), vmart.scheduler_stats()

        self.after(use)
        vmart.synchronize(stream)

    def test_of_pools(self):
        stream = self.attached()

        def use():
            pool = vmart.make_pool("gpu0", tag="blocks")
            blocks = [pool.allocate(5000, stream) for _ in range(4)]
            vmart.migrate(pool, "gpu1")
            for block in blocks:
                pool.deallocate(block, stream)
            vmart.synchronize(stream)
            pool.stats()
            pool.destroy()

        self.after(use)

    def test_of_errors(self):
        memory = self.made()

        def use():
            for wrong in (
                lambda: vmart.alloc(1 << 50, "gpu0"),
                lambda: vmart.migrate(memory, "gpu9"),
                lambda: vmart.migrate([memory, 5], "gpu1"),
                lambda: vmart.where(12345),
                lambda: vmart.empty((1 << 40, 1 << 30)),
                lambda: vmart.on_move(memory, before=5),
            ):
                with self.assertRaises((vmart.Error, TypeError)):
                    wrong()

            def refuses(event):
                raise ValueError("not now")

            with vmart.on_move(memory, before=refuses), self.assertRaises(vmart.Error):
                vmart.migrate(memory, "gpu1")

        self.after(use)

    def test_of_policies(self):
        memory = self.made()

        def use():
            vmart.set_policy("Watches")
            vmart.record_use(memory, "gpu1")
            vmart.step_scheduler()
            vmart.explain(memory)
            vmart.set_policy("stay_put")

        self.after(use)
        self.assertGreater(Watches.ticks, ROUNDS)

    def test_of_arrays_of_numpy_in_moving_memory(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("needs NumPy")

        def use():
            array = vmart.numpy.empty((64, 64), "float32", at="gpu0")
            array[:] = 1
            self.assertEqual(float(array.sum()), 64 * 64)
            del array
            numpy.asarray(vmart.empty(8, "int8", at="host0", zeroed=True))

        self.after(use)


if __name__ == "__main__":
    unittest.main()
