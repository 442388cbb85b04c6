#!/usr/bin/env python3
"""vmart.vllm on a simulated machine: what is kept when a sleep or wake-up fails at any point, and what the
error says if it cannot be undone; memory that a tag gets while the rest sleeps."""

import contextlib
import itertools
import unittest
from unittest import mock

from fake_cuda import MIB, tensor
from vllm_case import WithVllm
from vllm_worker import ALL, BUFFER, KV_CACHE, SCRATCH, STATE, WEIGHTS

import torch
import vmart
from vmart.torch import parking

STEPS = (
    (vmart.moving, "park"), (vmart.moving, "resume"), (vmart.moving, "migrate"), (vmart.runtime, "pin"),
    (torch.cuda, "synchronize"), (parking, "_in_hbm"),
)  # fmt: skip


def busy():
    return vmart.Busy("vma::park: busy: work goes on")


class Faults:
    """Raises at those calls of the steps whose numbers are in `at`: instead of the call, or after it."""

    def __init__(self, at, raised, after):
        self.at, self.raised, self.after = at, raised, after
        self.calls = 0

    @property
    def all_fired(self):
        return self.calls > max(self.at)

    @contextlib.contextmanager
    def installed(self):
        with contextlib.ExitStack() as patches:
            for module, name in STEPS:
                patches.enter_context(mock.patch.object(module, name, self.failing(getattr(module, name))))
            yield

    def failing(self, step):
        def called(*arguments, **options):
            number, self.calls = self.calls, self.calls + 1
            if number not in self.at:
                return step(*arguments, **options)
            if self.after:
                step(*arguments, **options)
            raise self.raised()

        return called


def raised_at(tag, step):
    """Raises at a step of that tag."""

    def called(which, **options):
        if which == tag:
            raise busy()
        return step(which, **options)

    return called


class AnyStepFails(WithVllm):
    KINDS = tuple(itertools.product((False, True), (busy, KeyboardInterrupt)))

    def failed(self, faults, call):
        """Whether the call failed."""
        with faults.installed():
            try:
                call()
            except (vmart.Busy, KeyboardInterrupt):
                return True
        return False

    def check_steps(self, level):
        worker = self.started()
        for after, raised in self.KINDS:
            for number in itertools.count():
                faults = Faults({number}, raised, after)
                if not self.failed(faults, lambda: worker.sleep(level)):
                    break
                self.assertEqual((worker.backend.state(), self.mapped(self.allocator())), ("RUNNING", ALL))
                if level == 2 and self.memory.byte(worker.weights) == 0:  # Their drop is the last step but one.
                    worker.reload()
                    worker.fill_buffer()
                worker.check()
            self.assertGreater(number, 5)
            for number in itertools.count():
                faults = Faults({number}, raised, after)
                if not self.failed(faults, worker.wake_up):
                    break
                self.assertEqual((worker.backend.state(), self.mapped(self.allocator())), ("SUSPENDED", 0))
            self.assertGreater(number, 5)
            if level == 2:
                worker.reload()
            worker.check()

    def test_a_sleep_and_a_wake_up_of_level_1(self):
        self.check_steps(1)

    def test_a_sleep_and_a_wake_up_of_level_2(self):
        self.check_steps(2)

    def test_a_step_of_the_undo_fails_too(self):
        worker = self.started()
        allocator = self.allocator()
        failed = 0
        for first, after in itertools.product(range(14), (False, True)):  # As many calls as both have.
            for second in itertools.count(first + 1):
                faults = Faults({first, second}, busy, after)
                try:
                    with faults.installed():
                        worker.backend.suspend()
                        worker.backend.resume()
                except vmart.Busy as error:
                    left = getattr(error.report, "left", [])  # None: the sleep failed before it began.
                    awake = sum(part.nbytes for part in left if part.what == "awake")
                    asleep = sum(part.nbytes for part in left if part.what == "asleep")
                    self.assertIn(self.mapped(allocator), (ALL - asleep, awake))
                    self.assertEqual("work goes on. Not all" in str(error), bool(left), error)
                    failed += 1
                allocator.wake_up()
                worker.check()
                if not faults.all_fired:
                    break
        self.assertGreater(failed, 60)


class TheUndoFindsNoRoom(WithVllm):
    def failed_sleep(self, places):
        """The GPUs at `places` are full before the undo."""
        worker = self.started()

        def park(tag, **options):
            if tag == "vllm/weights":
                vmart.trim("gpu0")
                for place in places:
                    self.capacity(place, ALL - STATE + MIB if place == "gpu0" else 0)
                raise busy()
            return before(tag, **options)

        before = vmart.moving.park
        with mock.patch.object(vmart.moving, "park", park), self.assertRaises(vmart.Busy) as caught:
            worker.sleep()
        return worker, caught.exception

    def test_what_stays_asleep_is_told_and_wakes_up_later(self):
        worker, error = self.failed_sleep(("gpu0", "gpu1"))
        self.assertEqual(error.report, ([], [("vllm/runtime", STATE, "asleep")], 0))
        told = f'work goes on. Not all .* undone: {STATE} bytes of tag "runtime" are asleep .*out_of_memory'
        self.assertRegex(str(error), told + ".*Restart the engine")
        self.assertEqual(worker.backend.state(), "SUSPENDED")
        vmart.set_capacity("gpu0", 1 << 37)
        self.allocator().wake_up()
        worker.check()

    def test_what_came_back_to_another_gpu_is_told(self):
        worker, error = self.failed_sleep(("gpu0",))
        self.assertEqual(error.report.left, [("vllm/runtime", STATE, "on gpu(1)")])
        self.assertRegex(str(error), r'tag "runtime" are on gpu\(1\).*llm\.wake_up\(\) lets it go on')
        worker.check()

    def test_an_error_of_the_undo_hides_no_other_tag_and_not_the_first_error(self):
        worker = self.started()
        moving = vmart.moving
        with (
            mock.patch.object(moving, "park", raised_at("vllm/kv_cache", moving.park)),
            mock.patch.object(moving, "resume", raised_at("vllm/runtime", moving.resume)),
            self.assertRaisesRegex(vmart.Busy, '"runtime" are asleep .Busy: .*work goes on') as caught,
        ):
            worker.sleep()
        self.assertEqual(caught.exception.report.left, [("vllm/runtime", STATE, "asleep")])
        self.assertEqual(self.places([worker.weights, worker.state]), ["gpu(0)", "host(0)"])
        self.allocator().wake_up()
        worker.check()

    def test_other_exceptions_have_it_as_a_note(self):
        worker = self.started()
        failing = Faults({0}, KeyboardInterrupt, False).failing
        with (
            mock.patch.object(parking, "_in_hbm", failing(parking._in_hbm)),
            self.assertRaises(KeyboardInterrupt) as caught,
        ):
            worker.sleep()
        self.assertEqual(caught.exception.__notes__, ["Nothing has changed by this pause"])


class BytesThatAreKept(WithVllm):
    def made(self, tag, byte, nbytes=12 * MIB):
        with self.allocator().use_memory_pool(tag):
            made = tensor(nbytes)
        self.memory.fill(made, byte)
        return made

    def test_what_the_program_parks_keeps_its_bytes_in_a_sleep(self):
        worker = self.started()
        worker.sleep(2)
        worker.wake_up()
        worker.reload()
        vmart.park("vllm/weights")
        worker.sleep()
        worker.wake_up()
        worker.check()

    def test_what_the_program_parks_keeps_its_bytes_in_a_wake_up_that_fails(self):
        worker = self.started()
        worker.sleep(2)
        worker.wake_up()
        worker.reload()
        for tag in ("vllm/weights", "vllm/workspace"):
            vmart.park(tag)
        self.capacity("gpu1", 0)
        self.capacity("gpu0", KV_CACHE + STATE + WEIGHTS + BUFFER + 8 * MIB)
        with self.assertRaisesRegex(vmart.OutOfMemory, '"workspace" could not resume'):
            self.allocator().wake_up()
        self.assertFalse(vmart.where(worker.weights)[0].dropped)
        vmart.set_capacity("gpu0", 1 << 37)
        self.allocator().wake_up()
        worker.check()

    def test_new_memory_of_a_dropped_tag_can_be_kept(self):
        allocator = self.allocator()
        old = self.made("t", 5)
        allocator.discard("t")
        new = self.made("t", 7)
        self.assertEqual(allocator.sleep("t").host_bytes, 12 * MIB)
        allocator.wake_up()
        self.assertEqual([self.memory.byte(each) for each in (old, new)], [0, 7])

    def test_a_wake_up_that_fails_touches_no_memory_that_was_awake(self):
        allocator = self.allocator()
        for kept in (False, True):
            old = self.made("t", 5)
            large = self.made("u", 6, 64 * MIB)
            allocator.sleep("t" if kept else "none")
            new = self.made("t", 7)
            self.capacity("gpu1", 0)
            self.capacity("gpu0", 40 * MIB)
            with self.assertRaisesRegex(vmart.OutOfMemory, "could not resume"):
                allocator.wake_up()
            self.assertEqual((self.places(new), self.memory.byte(new)), (["gpu(0)"], 7))
            self.assertEqual(self.mapped(allocator), 12 * MIB)
            for place in ("gpu0", "gpu1"):
                vmart.set_capacity(place, 1 << 37)
            allocator.wake_up()
            self.assertEqual([self.memory.byte(each) for each in (old, new)], [5 if kept else 0, 7])
            del old, new, large

    def test_a_sleep_that_fails_brings_new_memory_of_a_sleeping_tag_back(self):
        worker = self.started()
        allocator = self.allocator()
        worker.sleep()
        new, other = self.made("weights", 7), self.made("zzz", 6)
        moving = vmart.moving
        with (
            mock.patch.object(moving, "park", raised_at("vllm/zzz", moving.park)),
            self.assertRaisesRegex(vmart.Busy, "What it had done is undone"),
        ):
            allocator.sleep(("weights", "runtime"))
        self.assertEqual(self.places([new, other, worker.weights]), ["gpu(0)", "gpu(0)", "host(0)"])
        self.assertEqual(self.mapped(allocator), 24 * MIB)
        worker.wake_up()
        self.assertEqual([self.memory.byte(each) for each in (new, other)], [7, 6])
        self.assertEqual(self.mapped(allocator), ALL + 24 * MIB)
        worker.check()


if __name__ == "__main__":
    unittest.main()
