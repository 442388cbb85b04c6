#!/usr/bin/env python3
"""Moves from Python: what can be named, what a report says, what errors are, waiting and awaiting."""

import asyncio
import threading
import unittest

from machine_case import CHUNK, OnAMachine

import vmart


def pattern(nbytes, seed=0):
    return bytes((seed + number * 7) % 251 for number in range(4096)) * (nbytes // 4096)


class Moves(OnAMachine):
    def test_bytes_and_address_stay_through_all_places(self):
        memory = self.made()
        address = memory.pointer
        memory.write(pattern(memory.nbytes, 3))
        for place in ("gpu1", vmart.host(0), "cuda:0", "cpu", vmart.gpu(1)):
            report = vmart.migrate(memory, place)
            self.assertEqual(report.outcome, "done")
            self.assertEqual(report.bytes_moved, memory.nbytes)
            self.assertEqual(report.bytes_along, 0)
            self.assertEqual(self.places(memory), [str(vmart.as_place(place))])
        out = bytearray(memory.nbytes)
        memory.read_into(out)
        self.assertEqual(out, pattern(memory.nbytes, 3))
        self.assertEqual(memory.pointer, address)

    def test_a_part_moves_by_whole_chunks_and_the_report_says_what_came_along(self):
        memory = self.made()
        part = vmart.targets.Range(memory.pointer + CHUNK + 100, 1000)
        report = vmart.migrate(part, "gpu1")
        self.assertEqual(report.bytes_asked, CHUNK)
        self.assertEqual(report.bytes_along, CHUNK - 1000)
        self.assertEqual(self.places(memory), ["gpu(0)", "gpu(1)", "gpu(0)"])
        self.assertEqual(self.places(part), ["gpu(1)"])
        self.assertEqual(vmart.where(part)[0].nbytes, 1000)

    def test_the_address_of_a_block_names_the_block(self):
        pool, stream = vmart.make_pool("gpu0", chunk_bytes=CHUNK), vmart.make_stream("gpu0")
        pool.deallocate_now(pool.allocate(8 * CHUNK, stream))
        blocks = sorted(pool.allocate(3 * CHUNK // 2, stream) for _ in range(4))
        segment = vmart.allocations()[0]
        for each in vmart.allocations():
            if each.pointer <= blocks[0] < each.pointer + each.nbytes:
                segment = each
        for block in blocks:
            for address in (block, block + 777):
                offset = block - segment.pointer
                chunks = -(-(offset + 3 * CHUNK // 2) // CHUNK) - offset // CHUNK
                report = vmart.migrate(address, "gpu1")
                self.assertEqual(report.bytes_moved, chunks * CHUNK)
                self.assertEqual((report.bytes_named, report.bytes_along), (chunks * CHUNK, 0))
                report = vmart.migrate(vmart.targets.Range(block, 3 * CHUNK // 2), "gpu0")
                self.assertEqual(report.bytes_moved, chunks * CHUNK)
        for block in blocks:
            pool.deallocate_now(block)
        with self.assertRaisesRegex(vmart.UnknownPointer, "block"):
            vmart.migrate(blocks[1] + 5, "gpu1")

    def test_overlapping_parts_are_one_request(self):
        memory = self.made()
        first = vmart.targets.Range(memory.pointer, 2 * CHUNK)
        second = vmart.targets.Range(memory.pointer + CHUNK, CHUNK)
        report = vmart.migrate([second, first, first], "gpu1")
        self.assertEqual(len(report.requests), 1)
        self.assertEqual(report.bytes_named, 2 * CHUNK)

    def test_a_chunk_that_several_parts_share_is_asked_for_once(self):
        memory = self.made()
        parts = [vmart.targets.Range(memory.pointer + offset, 100) for offset in (0, 5000, CHUNK + 7)]
        report = vmart.migrate(parts, "gpu1")
        self.assertEqual((report.bytes_asked, report.bytes_moved), (2 * CHUNK, 2 * CHUNK))
        self.assertEqual((report.bytes_named, report.bytes_along), (300, 2 * CHUNK - 300))
        self.assertEqual(len(report.requests), 1)

    def test_names(self):
        one, two = self.made(tag="pair"), self.made(tag="pair")
        array = vmart.empty((CHUNK // 4,), "float32", at="gpu0")
        for what, count in (
            ("pair", 2),
            ({"a": one, "b": [two, array]}, 3),
            (one.pointer + 5, 1),
            ((array,), 1),
        ):
            self.assertEqual(len(vmart.migrate(what, "gpu1").requests), count)
            vmart.migrate(what, "gpu0")
        itself = [one]
        itself.append(itself)
        self.assertEqual(len(vmart.migrate(itself, "gpu1").requests), 1)

    def test_refusals_have_types_and_say_what_to_do(self):
        memory = self.made()
        with self.assertRaisesRegex(vmart.UnknownPointer, "vmart.torch.memory") as caught:
            vmart.migrate(1 << 40, "gpu1")
        self.assertIsInstance(caught.exception, (LookupError, vmart.Error))
        for call, error, text in (
            (lambda: vmart.migrate(memory, "gpu7"), vmart.InvalidArgument, "gpu"),
            (lambda: vmart.migrate(memory, "moon"), vmart.InvalidArgument, "moon"),
            (lambda: vmart.migrate("nobody", "gpu1"), vmart.InvalidArgument, "nobody"),
            (lambda: vmart.migrate(object(), "gpu1"), vmart.InvalidArgument, "object"),
            (lambda: vmart.migrate([], "gpu1"), vmart.InvalidArgument, "nothing to move"),
            (lambda: vmart.migrate(memory, "gpu1", mode="fast"), vmart.InvalidArgument, "fast"),
            (lambda: vmart.migrate(memory, "gpu1", deadline=-1), vmart.InvalidArgument, "deadline"),
            (lambda: vmart.migrate(memory, "gpu1", speed=1), TypeError, "speed"),
            (lambda: vmart.migrate(memory, "gpu1", deadline=float("nan")), vmart.InvalidArgument, "nan"),
            (lambda: vmart.migrate(b"abc", "gpu1"), vmart.InvalidArgument, "bytes"),
            (lambda: vmart.where(memoryview(b"abc")), vmart.InvalidArgument, "memoryview"),
            (lambda: vmart.advise(memory, "gpu1", until=float("inf")), vmart.InvalidArgument, "until"),
            (lambda: vmart.alloc(0, "gpu0"), vmart.InvalidArgument, ""),
            (lambda: vmart.alloc(1 << 40, "gpu0"), vmart.OutOfMemory, ""),
        ):
            with self.assertRaisesRegex(error, text):
                call()
        self.assertEqual(self.places(memory), ["gpu(0)"])

    def test_nothing_is_switched_inside_a_scope_of_copies(self):
        memory = self.made()
        with vmart.copy_scope(), self.assertRaises(vmart.Busy) as refused:
            vmart.migrate(memory, "gpu1", deadline=0.2)
        self.assertIn("copy", str(refused.exception))
        self.assertEqual(self.places(memory), ["gpu(0)"])
        vmart.migrate(memory, "gpu1")
        self.assertEqual(self.places(memory), ["gpu(1)"])

    def test_the_error_of_a_move_has_its_report(self):
        moves, stays = self.made(), self.made()
        with vmart.pin(stays), self.assertRaises(vmart.Pinned) as caught:
            vmart.migrate([moves, stays], "gpu1")
        error = caught.exception
        self.assertEqual(error.kind, "pinned")
        self.assertEqual(error.report.bytes_moved, moves.nbytes)
        self.assertEqual(error.report.bytes_along, 0)
        failed = [each for each in error.report.requests if each.error is not None]
        self.assertEqual([each.pointer for each in failed], [stays.pointer])
        vmart.migrate(stays, "gpu1")

    def test_progress_is_told_and_its_exceptions_change_nothing(self):
        memory = self.made()
        seen = []
        vmart.migrate(memory, "gpu1", on_progress=lambda now: seen.append(now.chunks_moved))
        self.assertEqual(seen[-1], 3)
        before = vmart.stats().callbacks_failed
        vmart.migrate(memory, "gpu0", on_progress=lambda now: now.nothing)
        self.assertGreater(vmart.stats().callbacks_failed, before)
        self.assertEqual(self.places(memory), ["gpu(0)"])


class BackgroundMoves(OnAMachine):
    def test_need_no_attached_stream(self):
        memory = self.made()
        vmart.migrate_async(memory, "gpu1").wait(60)
        self.assertEqual(self.places(memory), ["gpu(1)"])

    def test_are_waited_for_and_told(self):
        self.attached()
        memory = self.made()
        told = threading.Event()
        migration = vmart.migrate_async(memory, "gpu1")
        migration.add_done_callback(lambda ended: ended.done() and told.set())
        report = migration.wait(60)
        self.assertEqual(report.bytes_moved, memory.nbytes)
        self.assertTrue(told.wait(60))
        self.assertTrue(migration.done())

    def test_can_be_awaited_together(self):
        self.attached()
        parts = [self.made() for _ in range(4)]

        async def all_move():
            return await asyncio.gather(*(vmart.migrate_async(part, "gpu1") for part in parts))

        for report in asyncio.run(all_move()):
            self.assertEqual(report.outcome, "done")
        self.assertEqual(self.places(parts), ["gpu(1)"] * 4)

    def test_errors_reach_who_awaits(self):
        self.attached()
        memory = self.made()

        async def moves():
            with vmart.pin(memory):
                await vmart.migrate_async(memory, "gpu1")

        with self.assertRaises(vmart.Pinned):
            asyncio.run(moves())

    def test_a_cancelled_task_cancels_the_migration(self):
        self.attached()
        memory = self.made()

        async def cancels():
            with vmart.pin(memory):
                migration = vmart.migrate_async(memory, "gpu1", wait_for_pins=True, deadline=600)
                task = asyncio.ensure_future(_awaited(migration))
                await asyncio.sleep(0)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
            with self.assertRaises(vmart.Cancelled):
                migration.wait(60)

        async def _awaited(migration):
            return await migration

        asyncio.run(cancels())

    def test_other_threads_run_while_one_waits(self):
        self.attached()
        memory = self.made()
        pin = vmart.pin(memory)
        migration = vmart.migrate_async(memory, "gpu1", wait_for_pins=True, deadline=600)
        releasing = threading.Thread(target=pin.release)  # Runs only if `wait` has released the GIL.
        releasing.start()
        migration.wait(60)
        releasing.join()
        self.assertEqual(self.places(memory), ["gpu(1)"])


class Parking(OnAMachine):
    def test_parks_and_resumes_by_tag(self):
        memory = self.made(tag="weights")
        memory.write(pattern(memory.nbytes, 9))
        report = vmart.park("weights")
        self.assertEqual((report.bytes_moved, report.stayed), (memory.nbytes, []))
        self.assertTrue(vmart.is_parked("weights"))
        self.assertEqual(self.places(memory), ["host(0)"])
        vmart.resume("weights")
        self.assertEqual(self.places(memory), ["gpu(0)"])
        out = bytearray(memory.nbytes)
        memory.read_into(out)
        self.assertEqual(out, pattern(memory.nbytes, 9))

    def test_dropped_memory_refuses_reads_until_it_is_resumed(self):
        memory = self.made(tag="cache")
        vmart.park("cache", drop=True)
        with self.assertRaises(vmart.Dropped):
            memory.read_into(bytearray(8))
        self.assertEqual(vmart.resume("cache").bytes_moved, memory.nbytes)
        out = bytearray(b"x" * 64)
        memory.read_into(out)
        self.assertEqual(bytes(out), bytes(64))

    def test_what_stays_is_named(self):
        memory = self.made(tag="held")
        with vmart.pin(memory):
            report = vmart.park("held")
        self.assertEqual([stayed.pointer for stayed in report.stayed], [memory.pointer])
        self.assertIn("pinned", report.stayed[0].reason)


if __name__ == "__main__":
    unittest.main()
