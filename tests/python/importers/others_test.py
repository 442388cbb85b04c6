#!/usr/bin/env python3
"""Kernels of training, statistics of look-ups, disks and caches become the accesses that their importers promise, and the
random numbers are those of Boost: others_test.py VMART_LAB. Method: expectations computed by hand."""

import collections
import gzip
import struct
import unittest
from unittest import mock

from converting import Converting

from vmart.lab.importers import event_order
from vmart.lab.importers.event_order import EventOrder
from vmart.lab.importers.input_lines import Refused
from vmart.lab.importers.random_numbers import Poisson, RandomNumbers

TENSORS = "tensor,is_weight,bytes\n1,1,100\n2,0,200\n3,0,300\n4,0,0\n"
LOCALITY = """a.pt
Histogram of col sizes:
(0, 1]: 0.9
Ratio of index distribution at different column sizes:
(0, 1]: 1.000
[0, 1]

b.pt
Ratio of index distribution at different column sizes:
(0, 1]: 0.500
(1, 3]: 0.500
[0, 1]
"""


class Training(Converting):
    def kernels(self, *rows, tensors=TENSORS):
        self.file("net_tensors.csv", tensors)
        return self.file("net_kernels.jsonl", "".join(
            f'{{"us":{us},"in":{read},"out":{written}}}\n' for us, read, written in rows))

    def test_microbatches_overlap(self):
        # While the second stage has the first microbatch, the first stage has the second one.
        path = self.kernels((2, [1], [2]), (2, [2], [3]))
        events = self.events("g10", path, "iterations=1", "stages=2", "microbatches=2")
        told = [(one["event"], one["time_ns"], one.get("object", one.get("task")), one.get("device"),
                 one.get("after", one.get("after_task"))) for one in events if one["event"] != "access"]
        self.assertEqual(told, [
            ("mark", 0, None, None, None), ("alloc", 0, 1, None, None), ("alloc", 0, 5, None, None),
            ("task", 0, 1, 0, None), ("alloc", 1000, 6, None, 1), ("task", 1000, 2, 1, [1]),
            ("alloc", 1000, 7, None, 1), ("task", 1000, 3, 0, [1]), ("free", 2000, 5, None, 2),
            ("free", 2000, 6, None, 2), ("alloc", 2000, 8, None, 3), ("task", 2000, 4, 1, [3, 2]),
            ("free", 3000, 7, None, 4), ("free", 3000, 8, None, 4), ("free", 3000, 1, None, 4)])

    def test_kernels_use_their_tensors(self):
        path = self.kernels((1.5, [1], [2]), (0.5, [2, 1], [1, 3]))
        uses = [(one["time_ns"], one["object"], one["use"], one["duration_ns"], one["task"])
                for one in self.events("g10", path, "iterations=1", "closed=0") if one["event"] == "access"]
        self.assertEqual(uses, [(0, 1, "read", 1500, 1), (0, 2, "write", 1500, 1), (1500, 1, "read_write", 500, 2),
                                (1500, 2, "read", 500, 2), (1500, 3, "write", 500, 2)])

    def test_kernels_announce_when_their_tensors_are_used_next(self):
        # The weight is used again in 1.5 us and then, by the next iteration, in 0.5 us.
        path = self.kernels((1.5, [1], [2]), (0.5, [2, 1], [1, 3]))
        hints = [(one["task"], one["object"], one["bytes"], one["next_use_ns"])
                 for one in self.events("g10", path, "iterations=2", "hints=1") if one["event"] == "hint"]
        self.assertEqual(hints, [(1, 1, 100, 1500), (1, 5, 200, 1500), (2, 1, 100, 500), (3, 1, 100, 1500),
                                 (3, 7, 200, 1500), (4, 1, 100, 500)])

    def test_stages_have_equal_time(self):
        path = self.kernels(*[(1, [1], [])] * 4, (4, [1], []))
        devices = [one["device"] for one in self.events("g10", path, "stages=2", "iterations=1", "closed=0")
                   if one["event"] == "access"]
        self.assertEqual(devices, [0, 0, 0, 0, 1])

    def test_bad_lines_and_the_table(self):
        path = self.kernels((1, [1], []), (1, [9], []), (1, [], [4]), (-1, [], []), (1, [True], []))
        path.write_text(path.read_text().replace("True", "true"))
        self.assertEqual(self.bad("g10", path), [
            "2: in: tensor 9 has no bytes", "3: out: tensor 4 has no bytes",
            "4: the line: us: -1 is not between 0 and 1000000000000", "5: in: contains an entry that is not a tensor"])
        (self.folder / "net_tensors.csv").unlink()
        self.assertIn("in the same folder", self.refused("g10", path))


class Others(Converting):
    def test_dlrm_samples_the_histogram(self):
        # Half of 1 200 000 look-ups go to 240 000 rows of 2.5 each, half to 600 000 rows of one. Of 120 000 rows
        # each, these are two objects of 300 000 look-ups and five of 120 000.
        events = self.events("dlrm", self.file("a.txt", LOCALITY), "section=1", "lookups=1200000", "row_bytes=10",
                             "object_bytes=1200000", "batches=40", "batch_us=10", "tasks=2")
        lookups = collections.Counter()
        for one in events:
            if one["event"] == "access":
                self.assertEqual(one["time_ns"] // 10_000, (one["task"] - 1) // 2)
                lookups[one["object"]] += one["passes"] * 120_000 / 40
        self.assertEqual(len(lookups), 7)
        for thing, count in lookups.items():
            expected = 300_000 if thing < 2 else 120_000
            self.assertAlmostEqual(count / expected, 1, delta=0.01)  # At least 20 standard deviations.

    def test_dlrm_takes_the_section_and_names_bad_lines(self):
        path = self.file("a.txt", LOCALITY)
        self.assertIn("a.txt: has 2 sections, but not number 2", self.refused("dlrm", path, "section=2"))
        text = "Ratio of index distribution\n(0, 1]: 0.5\n(1, 2: 0.1\n(2, 4]: x\n(4, 4]: 0.1\n(32+: 0.1\n"
        bad = self.bad("dlrm", self.file("b.txt", text), "lookups=100", "batches=1")
        self.assertEqual(bad, [f"{line}: is not a share of a class" for line in (3, 4, 5)])

    def test_disks_are_cut_into_regions(self):
        # 8 KiB are 16 blocks. The third I/O goes over the end of the first region into the second.
        path = self.file("a.csv", "version,time,op,size,lbn\n1,50,2a,512,3\n1,50,28,4096,100\n1,53,28,1024,15\n")

        def ios(*values):
            return [(one["time_ns"] // 1_000_000, one["object"], one.get("offset", 0), one["bytes"], one["use"],
                     one["device"]) for one in self.events("vscsi", path, "region_bytes=8192", "gpus=2", "speed=10",
                                                           *values) if one["event"] == "access"]

        self.assertEqual(ios(), [(0, 0, 0, 8192, "write", 0), (50, 1, 0, 8192, "read", 1), (300, 0, 0, 8192, "read", 0),
                                 (300, 2, 0, 8192, "read", 0)])
        self.assertEqual(ios("whole=0"), [(0, 0, 1536, 512, "write", 0), (50, 1, 2048, 4096, "read", 1),
                                          (300, 0, 7680, 512, "read", 0), (300, 2, 0, 512, "read", 0)])

    def test_times_after_the_last_one_are_refused(self):
        with self.assertRaises(Refused):
            EventOrder(print).add(1 << 63, "")
        path = self.file("a.csv", f"version,time,op,size,lbn\n1,0,2a,512,3\n1,{1 << 33},2a,512,3\n")
        self.assertRegex(self.refused("vscsi", path, "speed=1e-3"), r"a.csv: has events at \d+ ns, after the end")

    def test_events_that_wait_long_are_not_sorted_each_time(self):
        looked, written = 0, []

        def time_of(one):
            nonlocal looked
            looked += 1
            return one[0]

        with mock.patch.object(event_order, "TIME", time_of):
            order = EventOrder(written.append)
            for now in range(8000):
                order.advance(now)
                order.add(now, "a")
                order.add(1 << 40, "bb")
                order.add(1 << 40, "bb")
            order.finish()
        self.assertEqual("".join(written), "a" * 8000 + "b" * 32_000)
        self.assertLess(looked, 200_000)

    def test_disks_name_bad_lines(self):
        text = "version,time,op,size,lbn\n" + "".join(
            f"1,{rest}\n" for rest in ("50,2a,512,3", "49,2a,512,3", "50,35,512,3", "50,2a,0,3", "50,2a,512,-3"))
        self.assertEqual(self.bad("vscsi", self.file("a.csv", text)), [
            "3: is earlier than the I/O above it", '4: op: "35" is neither a read nor a write',
            '5: size: "0" is not a whole number from 1 to 4294967296',
            '6: lbn: "-3" is not a whole number from 0 to 281474976710656'])


class Cached(Converting):
    def cache(self, *requests):
        """Of second, object, bytes and the next request."""
        path = self.folder / "a.oracleGeneral.bin"
        path.write_bytes(b"".join(struct.pack("<IQIq", *one) for one in requests))
        return path

    def told(self, path, *values):
        return [(one["event"], one["time_ns"] // 1_000_000, one["object"], one.get("bytes"), one.get("use"),
                 one.get("device")) for one in self.events("oraclegeneral", path, *values)]

    def test_objects_live_from_their_first_request_to_their_last(self):
        path = self.cache((50, 7 << 40, 10, 2), (50, 9, 20, -1), (53, 7 << 40, 10, (1 << 63) - 1), (53, 9, 5, -1))
        self.assertEqual(self.told(path, "gpus=2", "speed=10", "scale=3"), [
            ("alloc", 0, 0, 30, None, None), ("access", 0, 0, 30, "write", 0), ("alloc", 50, 1, 60, None, None),
            ("access", 50, 1, 60, "write", 1), ("free", 50, 1, None, None, None), ("access", 300, 0, 30, "read", 0),
            ("free", 300, 0, None, None, None), ("alloc", 350, 2, 15, None, None), ("access", 350, 2, 15, "write", 0),
            ("free", 350, 2, None, None, None)])
        self.assertEqual(len(self.told(path, "requests=1")), 2)

    def test_another_size_replaces_the_object(self):
        path = self.cache((50, 7, 10, 1), (50, 7, 20, 2), (50, 7, 20, -1))
        self.assertEqual([one[:1] + one[2:5] for one in self.told(path)], [
            ("alloc", 0, 10, None), ("access", 0, 10, "write"), ("free", 0, None, None), ("alloc", 0, 20, None),
            ("access", 0, 20, "write"), ("access", 0, 20, "read"), ("free", 0, None, None)])

    def test_bad_records_and_damage(self):
        path = self.cache((50, 7, 10, 1), (49, 7, 10, 2), (50, 7, 0, -1), (50, 7, 1 << 31, -1))
        self.assertEqual(self.bad("oraclegeneral", path, f"scale={1 << 20}"), [
            "2: is earlier than the request above it", f"3: its object has 0 bytes, not 1 to {1 << 30}",
            f"4: its object has {1 << 31} bytes, not 1 to {1 << 30}"])
        data = path.read_bytes()
        path.write_bytes(gzip.compress(data[:-5]))
        self.assertIn("bin: record 4: is cut off after 19 of 24 bytes", self.refused("oraclegeneral", path))
        path.write_bytes(b"\x28\xb5\x2f\xfd" + data)
        self.assertIn("bin: is compressed by zstd", self.refused("oraclegeneral", path))


class Random(unittest.TestCase):
    def test_words_are_those_of_the_standard(self):
        random = RandomNumbers(5489)
        for _ in range(9999):
            random.word()
        self.assertEqual(random.word(), 9981545732273789042)  # C++ requires the 10 000th to be this one.

    def test_numbers_have_their_means(self):
        random, count = RandomNumbers(1), 20_000
        self.assertAlmostEqual(sum(random.exponential(1000) for _ in range(count)) / count, 1000, delta=40)
        for mean in (0, 0.3, 9.5, 10, 400):
            drawn = Poisson(mean)
            average = sum(drawn.draw(random) for _ in range(count)) / count
            self.assertAlmostEqual(average, mean, delta=5 * (mean / count) ** 0.5)


if __name__ == "__main__":
    unittest.main()
