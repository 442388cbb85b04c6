#!/usr/bin/env python3
"""Graphs of operators and choices of experts become the tasks that their importers promise: graphs_test.py VMART_LAB.
Method: expectations computed by hand."""

import json
import unittest

from converting import Converting

READ, WRITE, BOTH = "read", "write", "read_write"


def varint(number):
    text = bytearray()
    while number >= 0x80:
        text.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*text, number))


def member(number, value):
    """Of a message of protobuf: a whole number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def node(number, us=1, *, deps=(), reads=(), writes=(), stream=7, kind=4, cpu=False):
    """Tensors are (storage, offset, elements) of 4 bytes each on cuda:3."""

    def tensors(of):
        text = str([[9, *one, 4, "cuda:3"] for one in of] + [0, "<Object>"])
        return member(1, text.encode())

    attributes = [member(1, b"is_cpu_op") + member(27, int(cpu)), member(1, b"tid") + member(9, stream)]
    return b"".join([member(1, number), member(2, b"name"), member(3, kind), member(5, b"".join(map(varint, deps))),
                     member(7, us), member(8, tensors(reads)), member(9, tensors(writes)),
                     *(member(10, one) for one in attributes)])


class Chakra(Converting):
    def trace(self, *messages):
        path = self.folder / "a.et"
        path.write_bytes(b"".join(varint(len(one)) + one for one in (member(1, b"1.0"), *messages)))
        return path

    def told(self, path, *values):
        """Of each task: its time in us, GPU, predecessors and uses."""
        tasks = []
        for one in self.events("chakra", path, *values):
            if one["event"] == "task":
                tasks.append((one["time_ns"] // 1000, one["device"], one.get("after", []), []))
            elif one["event"] == "access":
                tasks[-1][3].append((one["object"], one["use"], one.get("offset", 0), one["bytes"]))
        return tasks

    def test_tensors_of_storages_are_used(self):
        # 1 reads storage 5 and writes 6, which 2 changes in part. 6 is as large as its furthest byte.
        path = self.trace(node(1, 2, reads=[(5, 0, 10)], writes=[(6, 0, 4)]),
                          node(2, 3, reads=[(6, 2, 6)], writes=[(6, 2, 6)]))
        self.assertEqual(self.told(path), [(0, 3, [], [(0, READ, 0, 40), (1, WRITE, 0, 16)]),
                                           (2, 3, [1], [(1, BOTH, 8, 24)])])
        rest = [(one["event"], one["time_ns"] // 1000, one["object"], one.get("bytes", one.get("after_task")),
                 one.get("tag")) for one in self.events("chakra", path) if one["event"] in ("alloc", "free")]
        self.assertEqual(rest, [("alloc", 0, 0, 40, "kept"), ("alloc", 0, 1, 32, "made"), ("free", 2, 0, 1, None),
                                ("free", 5, 1, 2, None)])

    def test_tensors_of_one_storage_are_one_use(self):
        path = self.trace(node(1, reads=[(5, 4, 6), (5, 2, 1)]), node(2, reads=[(5, 0, 1)], writes=[(5, 1, 1)]))
        self.assertEqual([one[3] for one in self.told(path)], [[(0, READ, 8, 32)], [(0, BOTH, 0, 8)]])

    def test_streams_wait_for_what_they_need(self):
        # 3 follows 1 by its dependency, 4 by the CPU node that launched 1, 5 as it reads what 3 wrote, 6 as it
        # overwrites what 5 reads. All are on streams of their own.
        path = self.trace(node(90, cpu=True, writes=[(8, 0, 1)]), node(1, 5, deps=[90], writes=[(5, 0, 1)], stream=1),
                          node(3, 2, deps=[1], writes=[(6, 0, 1)], stream=3), node(4, 1, deps=[90], stream=4),
                          node(5, 4, reads=[(6, 0, 1)], stream=5), node(6, 1, writes=[(6, 0, 1)], stream=6))
        self.assertEqual([(time, after) for time, _, after, _ in self.told(path)],
                         [(0, []), (5, [1]), (5, [1]), (7, [2]), (11, [4])])

    def test_streams_that_wait_for_the_same_node_run_beside_each_other(self):
        path = self.trace(node(1, 5, writes=[(5, 0, 1)]), node(2, 4, deps=[1], writes=[(6, 0, 1)], stream=2),
                          node(3, 4, deps=[1], writes=[(7, 0, 1)], stream=3))
        self.assertEqual([(time, after) for time, _, after, _ in self.told(path)], [(0, []), (5, [1]), (5, [1])])

    def test_iterations_keep_what_was_there(self):
        path = self.trace(node(1, 1, reads=[(5, 0, 1)], writes=[(6, 0, 1)]), node(2, 1, reads=[(6, 0, 1)], stream=8))
        self.assertEqual([(time, after, [use[0] for use in uses]) for time, _, after, uses
                          in self.told(path, "iterations=2")],
                         [(0, [], [0, 1]), (1, [1], [1]), (2, [1, 2], [0, 2]), (3, [1, 2, 3], [2])])

    def test_collectives_wait_for_all_ranks(self):
        path = self.trace(node(1, 1, writes=[(5, 0, 1)]), node(2, 1, reads=[(5, 0, 1)], kind=7, stream=9))
        self.assertEqual(self.told(path, "gpus=2"), [
            (0, 0, [], [(0, WRITE, 0, 4)]), (0, 1, [], [(1, WRITE, 0, 4)]), (1, 0, [1, 2], [(0, BOTH, 0, 4)]),
            (1, 1, [1, 2], [(1, BOTH, 0, 4)])])

    def test_damage_is_named(self):
        path = self.trace(node(1, reads=[(5, 0, 1)]))
        data = path.read_bytes()
        path.write_bytes(data[:-3])
        self.assertRegex(self.refused("chakra", path), r"a.et: message 2: is cut off after \d+ of \d+ bytes")
        path.write_bytes(data + b"\xff")
        self.assertIn("a.et: message 3: its length is no number", self.refused("chakra", path))
        path.write_bytes(data + b"\xff\xff\xff\xff\x0f")
        self.assertIn("a.et: message 3: has 4294967295 bytes, at most", self.refused("chakra", path))
        self.assertIn("a.et: names no tensors on GPUs in 1 nodes", self.refused("chakra", self.trace(node(1))))

    def test_bad_nodes(self):
        good = node(1, reads=[(5, 0, 1)])
        far = [(5, 1 << 50, 1)]
        self.assertEqual(self.bad("chakra", self.trace(good, good[:-1], b"\x0e", member(3, 4), node(2, reads=far),
                                                       node(3, 1 << 60), node(4, deps=[1] * 9000))), [
            "3: is not a message of protobuf", "4: is not a message of protobuf", "5: has no id",
            f"6: storage 5 has {4 * ((1 << 50) + 1)} bytes, at most {1 << 50}",
            f"7: takes {1 << 60} us, at most {10**15}", "8: has 9000 dependencies, at most 8192"])


class Experts(Converting):
    def routes(self, *rows):
        """Request, token, layer, experts."""
        return self.file("a.jsonl", '{"type":"meta","num_experts":8}\n' + "".join(json.dumps(
            {"req_id": request, "token_idx": token, "layer": layer, "topk_ids": experts}) + "\n"
            for request, token, layer, experts in rows))

    def told(self, path, *values):
        """Of each task: its time in us, GPU, predecessors and objects."""
        tasks = []
        for one in self.events("experts", path, "expert_bytes=10", "layer_us=5", *values):
            if one["event"] == "task":
                tasks.append((one["time_ns"] // 1000, one["device"], one.get("after", []), []))
            elif one["event"] == "access":
                tasks[-1][3].append(one["object"])
        return tasks

    def test_each_gpu_reads_what_its_tokens_choose(self):
        # Requests a and c belong to GPU 0. Expert 1 of layer 1 is another object than that of layer 0.
        path = self.routes(("a", 0, 0, [1, 2]), ("b", 0, 0, [2]), ("c", 0, 0, [1, 3]), ("a", 0, 1, [1]))
        self.assertEqual(self.told(path, "gpus=2"), [(0, 0, [], [0, 1, 2]), (0, 1, [], [1]), (5, 0, [1, 2], [3])])

    def test_batches_have_a_largest_size(self):
        path = self.routes(("a", 0, 0, [1]), ("a", 1, 0, [1]), ("a", 2, 0, [1]))
        self.assertEqual(self.told(path, "batch_tokens=2"), [(0, 0, [], [0]), (5, 0, [1], [0])])
        events = self.events("experts", path, "expert_bytes=10", "batch_tokens=2")
        self.assertEqual(events[0], {"event": "alloc", "time_ns": 0, "object": 0, "bytes": 10, "tag": "expert"})
        self.assertEqual(events[-1], {"event": "free", "time_ns": 200_000, "object": 0, "after_task": 2})

    def test_bad_lines(self):
        path = self.routes(("a", 0, 0, [1]), ("a", 0, -1, [1]), ("a", 0, 0, []), ("a", 0, 0, [1.5]), ([], 0, 0, [1]),
                           ("a", 0, 0, [1_000_001]), ("a", 0, 0, 5))
        self.assertEqual(self.bad("experts", path), [
            "3: the line: layer: -1 is not between 0 and 10000", "4: topk_ids: are not experts from 0 to 1000000",
            "5: topk_ids: contains something other than a whole number",
            "6: req_id: is neither a text nor a whole number", "7: topk_ids: are not experts from 0 to 1000000",
            "8: the line: topk_ids: is not a list"])


if __name__ == "__main__":
    unittest.main()
