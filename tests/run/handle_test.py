"""Programs share memory by CUDA's handles under `vmart run`. handle_test.py VMART PROGRAM"""

import sys
import time
import unittest

from run_test import PROGRAM, Running, places

BYTES = (4 << 20) + 4096  # More than pages of a GPU have.
INVALID_VALUE, INVALID_CONTEXT, MAP_FAILED, NOT_SUPPORTED = 1, 201, 205, 801
OPENED = "opened another"


class Sharer(Running):
    """A program that does what it is told."""

    def __init__(self, *options, **changes):
        super().__init__("", "", *options, command=(str(PROGRAM),), **changes)

    def tell(self, *words):
        self._process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def handle(self):
        kind, text = self.tell("handle").split(" ", 1)
        if kind != "handle":
            raise AssertionError(f"{kind} {text} {self.errors()}")
        return text

    def kill(self):
        self._process.kill()
        self._process.wait()


def wait_until_movable(exporter):
    """It learns of a close when the socket is closed."""
    deadline = time.monotonic() + 60
    while not exporter.where()[0]["movable"] and time.monotonic() < deadline:
        pass


class Pair:
    """The first has exported memory, which the second has opened."""

    def __init__(self, *options, size=BYTES):
        self.exporter, self.importer = Sharer(*options), Sharer()
        assert self.exporter.tell("alloc", size) == "allocated"
        assert self.exporter.tell("fill", 1) == "filled"
        self.handle = self.exporter.handle()
        opened = self.importer.tell("open", self.handle)
        assert opened == OPENED, opened + self.importer.errors()
        self.importer.tell("range")  # From now on it knows the size.

    def __enter__(self):
        return self.exporter, self.importer

    def __exit__(self, *error):
        self.exporter.__exit__(*error)
        self.importer.__exit__(*error)


class Handles(unittest.TestCase):
    def test_share_memory_in_both_directions(self):
        with Pair() as (exporter, importer):
            self.assertEqual(importer.tell("check", 1), "wrong 0")
            self.assertEqual(importer.tell("fill", 2), "filled")
            self.assertEqual(exporter.tell("check", 2), "wrong 0")
            self.assertEqual(exporter.tell("fill", 3), "filled")
            self.assertEqual(importer.tell("check", 3), "wrong 0")
            self.assertEqual(importer.tell("close"), "closed")
            self.assertEqual(exporter.tell("free"), "freed")
            for program in (exporter, importer):
                self.assertEqual(program.errors(), "")
                program.end()

    def test_keep_the_bytes_of_memory_that_was_made_for_one_process(self):
        # Of several chunks, of which the last is shorter.
        with Pair(size=(520 << 20) + 4096) as (_, importer):
            self.assertEqual(importer.tell("check", 1), "wrong 0")

    def test_may_be_made_beside_work(self):
        with Sharer() as exporter, Sharer() as importer:
            exporter.tell("alloc", BYTES)
            for value in range(1, 6):
                self.assertEqual(exporter.tell("work", value), "enqueued")
                handle = exporter.handle()  # The first time, the memory is replaced.
                if value == 1:
                    self.assertEqual(importer.tell("open", handle), OPENED)
                    importer.tell("range")
                self.assertEqual(exporter.tell("wait"), "waited")
                self.assertEqual(importer.tell("check", value), "wrong 0")
                self.assertEqual(importer.tell("work", value + 9), "enqueued")
                self.assertEqual(importer.tell("wait"), "waited")
                self.assertEqual(exporter.tell("check", value + 9), "wrong 0")

    def test_may_be_made_while_contexts_end(self):
        # A context that ends keeps all memory in place for a moment.
        with Sharer() as exporter:
            self.assertEqual(exporter.tell("alloc", BYTES), "allocated")
            self.assertEqual(exporter.tell("beside", 200), "refused 0")
            self.assertEqual(exporter.errors(), "")

    def test_are_the_same_for_the_same_memory(self):
        with Sharer() as exporter:
            exporter.tell("alloc", BYTES)
            first = exporter.handle()
            self.assertEqual(exporter.handle(), first)
            self.assertEqual(exporter.tell("free"), "freed")
            exporter.tell("alloc", BYTES)
            self.assertNotEqual(exporter.handle(), first)

    def test_opened_twice_give_one_pointer_and_count(self):
        pair = Pair()
        with pair as (exporter, importer):
            self.assertEqual(importer.tell("open", pair.handle), "opened the same")
            self.assertEqual(importer.tell("close"), "closed")
            self.assertEqual(importer.tell("check", 1), "wrong 0")
            self.assertEqual(len(importer.allocations()), 1)
            self.assertEqual(importer.tell("close"), "closed")
            self.assertEqual(importer.allocations(), [])
            self.assertTrue(importer.tell("close").startswith("cuIpcCloseMemHandle returned"))
            self.assertIn("opened", importer.tell("open", pair.handle))  # Perhaps where it was.
            self.assertEqual(importer.tell("check", 1), "wrong 0")
            self.assertEqual(exporter.tell("check", 1), "wrong 0")

    def test_describe_the_memory_as_the_driver_would(self):
        with Pair() as (exporter, importer):
            told = f"range {BYTES} at 0, type 2, device 0, context 1, capable"
            self.assertEqual(exporter.tell("range"), f"{told} 1")
            self.assertEqual(importer.tell("range"), f"{told} 0")
            self.assertEqual(importer.tell("handle"),
                             f"cuIpcGetMemHandle returned {INVALID_VALUE}")  # The driver's answer.
            self.assertEqual(importer.tell("free"), f"cuMemFree_v2 returned {INVALID_VALUE}")
            self.assertEqual(importer.tell("check", 1), "wrong 0")

    def test_are_not_opened_where_they_were_made(self):
        with Sharer() as exporter:
            exporter.tell("alloc", BYTES)
            self.assertEqual(exporter.tell("open", exporter.handle()),
                             f"cuIpcOpenMemHandle_v2 returned {INVALID_CONTEXT}")

    def test_of_the_driver_stay_the_drivers(self):
        with Sharer() as one:
            one.tell("alloc", 4096)
            self.assertEqual(one.tell("open", one.handle()), f"cuIpcOpenMemHandle_v2 returned {INVALID_CONTEXT}")
            self.assertFalse(one.socket.exists(), "vmart was loaded for nothing")
            self.assertEqual(one.tell("open", 128 * "0"),
                             f"cuIpcOpenMemHandle_v2 returned {NOT_SUPPORTED}")
            self.assertEqual(one.errors(), "")


class Ends(unittest.TestCase):
    def test_memory_outlives_a_free_of_the_exporter(self):
        with Pair() as (exporter, importer):
            self.assertEqual(exporter.tell("free"), "freed")
            self.assertEqual(exporter.allocations(), [])
            self.assertEqual(exporter.tell("alloc", BYTES), "allocated")
            self.assertEqual(exporter.tell("fill", 9), "filled")
            self.assertEqual(importer.tell("check", 1), "wrong 0")
            self.assertEqual(importer.tell("close"), "closed")

    def test_memory_outlives_the_exporter(self):
        for kill in (False, True):
            with self.subTest(kill=kill), Pair() as (exporter, importer):
                exporter.kill() if kill else exporter.end()
                self.assertEqual(importer.tell("check", 1), "wrong 0")
                self.assertEqual(importer.tell("close"), "closed")

    def test_the_exporter_frees_after_an_importer_that_has_ended(self):
        for kill in (False, True):
            with self.subTest(kill=kill), Pair() as (exporter, importer):
                importer.kill() if kill else importer.end()
                self.assertEqual(exporter.tell("check", 1), "wrong 0")
                self.assertEqual(exporter.tell("free"), "freed")

    def test_handles_of_freed_memory_and_of_ended_processes_are_refused(self):
        refusal = f"cuIpcOpenMemHandle_v2 returned {MAP_FAILED}"
        for end in ("free", "kill"):
            with self.subTest(end=end), Sharer() as exporter, Sharer() as importer:
                exporter.tell("alloc", BYTES)
                handle = exporter.handle()
                exporter.tell("free") if end == "free" else exporter.kill()
                self.assertEqual(importer.tell("open", handle), refusal)
                self.assertEqual(importer.errors().count("vmart run: "), 1)

    def test_the_end_of_a_context_closes_what_was_opened_in_it(self):
        pair = Pair()
        with pair as (exporter, importer):
            self.assertEqual(importer.tell("close"), "closed")
            self.assertEqual(importer.tell("context"), "pushed")
            self.assertIn("opened", importer.tell("open", pair.handle))
            self.assertEqual(len(importer.allocations()), 1)
            self.assertEqual(importer.tell("destroy"), "destroyed")
            self.assertEqual(importer.allocations(), [])
            self.assertEqual(exporter.tell("check", 1), "wrong 0")


class Moves(unittest.TestCase):
    def test_go_on_until_another_process_opens_the_memory(self):
        with Sharer() as exporter, Sharer() as importer:
            exporter.tell("alloc", BYTES)
            exporter.tell("fill", 1)
            handle = exporter.handle()
            exporter.control("migrate", "run", "gpu1")
            self.assertEqual(importer.tell("open", handle), OPENED)
            self.assertTrue(importer.tell("range").endswith("device 0, context 1, capable 0"))
            self.assertEqual(importer.tell("check", 1), "wrong 0")
            self.assertEqual([places(one) for one in importer.where()], [{"gpu(1)"}])

    def test_are_refused_while_it_has_it_open(self):
        with Pair() as (exporter, importer):
            self.assertEqual([one["movable"] for one in exporter.where()], [False])
            with self.assertRaisesRegex(AssertionError, f"imported by process {importer.pid}"):
                exporter.control("migrate", "run", "gpu1")
            self.assertEqual(importer.tell("close"), "closed")
            wait_until_movable(exporter)
            exporter.control("migrate", "run", "gpu1")
            self.assertEqual(exporter.tell("check", 1), "wrong 0")

    def test_bring_the_memory_back_to_where_another_process_can_open_it(self):
        # Each sees one GPU, as its number 0.
        for seen, moved in (("0", "gpu1"), ("1", "gpu0")):
            with self.subTest(seen=seen), Sharer() as exporter, Sharer(CUDA_VISIBLE_DEVICES=seen) as importer:
                exporter.tell("alloc", BYTES)
                exporter.tell("fill", 1)
                handle = exporter.handle()
                exporter.control("migrate", "run", moved)
                self.assertEqual(importer.tell("open", handle), OPENED, importer.errors())
                self.assertEqual(places(exporter.where()[0]), {f"gpu({seen})"})
                self.assertEqual(places(importer.where()[0]), {"gpu(0)"})
                importer.tell("range")
                self.assertEqual(importer.tell("check", 1), "wrong 0")
                self.assertEqual(importer.tell("fill", 2), "filled")
                self.assertEqual(exporter.tell("check", 2), "wrong 0")

    def test_go_to_the_host_for_processes_that_see_different_gpus(self):
        with (Sharer() as exporter, Sharer(CUDA_VISIBLE_DEVICES="0") as first,
              Sharer(CUDA_VISIBLE_DEVICES="1") as second):
            exporter.tell("alloc", BYTES)
            exporter.tell("fill", 1)
            handle = exporter.handle()
            for importer in (first, second):
                self.assertEqual(importer.tell("open", handle), OPENED, importer.errors())
            for one in (exporter, first, second):
                self.assertEqual(places(one.where()[0]), {"host(0)"})
            for importer in (first, second):
                importer.tell("range")
                self.assertEqual(importer.tell("check", 1), "wrong 0")

    def test_are_refused_in_the_other_process(self):
        with Pair() as (_, importer):
            with self.assertRaisesRegex(AssertionError, "pinned: .*exports it"):
                importer.control("migrate", "all", "gpu1")

    def test_for_limits_leave_the_memory_alone(self):
        with Pair("--capacity", "gpu0=64MiB") as (exporter, importer):
            with self.assertRaisesRegex(AssertionError, "still above the capacity: they may not move"):
                exporter.control("capacity", "gpu0", "0")
            self.assertEqual([places(one) for one in importer.where()], [{"gpu(0)"}])
            self.assertEqual(importer.tell("close"), "closed")
            wait_until_movable(exporter)
            exporter.control("capacity", "gpu0", "0")
            self.assertNotIn("gpu(0)", places(exporter.where()[0]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
