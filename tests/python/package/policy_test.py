#!/usr/bin/env python3
"""A policy written in Python decides; what it raises, keeps or misnames hurts nobody."""

import time
import unittest

from machine_case import OnAMachine

import vmart


class MostUsed(vmart.Policy):
    """Moves each chunk to the GPU that uses it most."""

    parameters = {"least": 0.0}
    made = []

    def __init__(self, least=0.0):
        self.least = least
        self.kept = None
        self.misbehaves = None
        MostUsed.made.append(self)

    def on_alloc(self, nbytes, device, tag, snapshot):
        return vmart.gpu(1) if tag == "second" else None

    def on_tick(self, snapshot, plan):
        if self.misbehaves:
            self.misbehaves(snapshot, plan)
        for number in snapshot.changed:
            chunk = snapshot.chunk(number)
            if chunk.moving or not chunk.users:
                continue
            best = max(chunk.users, key=lambda gpu: sum(chunk.users[gpu]))
            if best != chunk.at and sum(chunk.users[best]) > self.least:
                plan.move(number, best, 1.0, f"{best} uses it most")


class OwnPolicy(OnAMachine):
    @classmethod
    def options(cls):
        return {"policy": "MostUsed:least=8", "policies": [MostUsed], "tick": 1.0}

    def setUp(self):
        vmart.pause_scheduler()  # Steps are those of the tests alone.
        self.policy = MostUsed.made[-1]
        self.policy.misbehaves = None

    def test_parameters_are_set(self):
        self.assertEqual(self.policy.least, 8.0)
        self.assertTrue(vmart.policy().startswith("MostUsed"))
        with self.assertRaises(vmart.InvalidArgument):
            vmart.set_policy("MostUsed:most=1")

    def test_it_places_what_names_no_place(self):
        memory = vmart.alloc(1 << 21, tag="second")
        self.assertEqual(self.places(memory), ["gpu(1)"])

    def test_memory_follows_its_user(self):
        self.attached()
        memory = self.made()
        vmart.resume_scheduler()
        end = time.monotonic() + 120
        while set(self.places(memory)) != {"gpu(1)"} and time.monotonic() < end:
            vmart.record_use(memory, "gpu1", "read_write")
            vmart.step_scheduler()
        self.assertEqual(set(self.places(memory)), {"gpu(1)"})
        self.assertIn("gpu(1) uses it most", "\n".join(vmart.explain(memory)))

    def test_exceptions_are_counted_and_drop_the_plan(self):
        def misbehaves(snapshot, plan):
            raise ZeroDivisionError("of the policy")

        self.policy.misbehaves = misbehaves
        before = vmart.scheduler_stats().policy_failures
        vmart.step_scheduler()
        self.assertEqual(vmart.scheduler_stats().policy_failures, before + 1)

    def test_what_is_kept_answers_no_more(self):
        kept = []
        self.policy.misbehaves = lambda snapshot, plan: kept.extend((snapshot, plan))
        vmart.step_scheduler()
        snapshot, plan = kept
        for use in (lambda: snapshot.now, lambda: snapshot.chunks, plan.decline):
            with self.assertRaisesRegex(vmart.InvalidArgument, "after the call"):
                use()

    def test_unknown_chunks_and_places_are_refused(self):
        errors = []

        def misbehaves(snapshot, plan):
            for call in (
                lambda: snapshot.chunk(1 << 20),
                lambda: plan.move(0, vmart.gpu(9), 1.0, "none"),
            ):
                try:
                    call()
                except vmart.InvalidArgument as error:
                    errors.append(str(error))

        self.policy.misbehaves = misbehaves
        vmart.step_scheduler()
        self.assertEqual(len(errors), 2)

    def test_a_parameter_that_the_class_does_not_take_is_refused(self):
        class Wrong(vmart.Policy):
            parameters = {"unknown": 1.0}

        with self.assertRaisesRegex(vmart.InvalidArgument, "unknown"):
            vmart.open_runtime(policy=Wrong)

    def test_a_second_opening_is_refused(self):
        with self.assertRaisesRegex(vmart.Busy, "open"):
            vmart.open_runtime(driver="sim:h200x2")


if __name__ == "__main__":
    unittest.main()
