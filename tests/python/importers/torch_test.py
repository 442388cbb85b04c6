#!/usr/bin/env python3
"""What PyTorch records of its memory becomes the accesses that the importers promise, and files that are damaged or
hostile end with an error that names them: torch_test.py VMART_LAB. Method: snapshots and traces of a few events by hand,
with the members that PyTorch 2.11 writes."""

import gzip
import json
import os
import pickle
import unittest

from converting import Converting

from vmart.lab.importers.json_events import events_of


def event(action, us, address=0, size=0):
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": 1_000_000 + us, "frames": []}


def block(size, state="active_allocated", requested=None):
    return {"address": 1, "size": size, "requested_size": requested or size, "state": state, "frames": []}


class Snapshot(Converting):
    def snapshot(self, *histories, segments=()):
        path = self.folder / "a.pickle"
        path.write_bytes(pickle.dumps({"device_traces": list(histories), "segments": list(segments),
                                       "allocator_settings": {}}, protocol=4))
        return path

    def told(self, path, *values):
        return [(one["event"], one["time_ns"] // 1000, one["object"], one.get("bytes"),
                 one.get("use", one.get("tag")), one.get("device")) for one in
                self.events("torch_snapshot", path, *values)]

    def test_allocations_are_written_and_read_once(self):
        # Address 4096 of GPU 0 was there before. 8192 is freed at 40 us, and reused 20 us later by another one.
        path = self.snapshot(
            [event("segment_alloc", 0, 4096, 1 << 20), event("alloc", 10, 8192, 100), event("free_requested", 20, 4096, 7),
             event("free_completed", 20, 4096, 7), event("free_requested", 40, 8192, 100),
             event("free_completed", 60, 8192, 100), event("alloc", 60, 8192, 30)],
            [event("alloc", 30, 8192, 50)])
        self.assertEqual(self.told(path), [
            ("alloc", 0, 1, 7, "kept", None), ("alloc", 0, 0, 100, "made", None), ("access", 0, 0, 100, "write", 0),
            ("access", 10, 1, 7, "read", 0), ("free", 10, 1, None, None, None), ("alloc", 20, 2, 50, "made", None),
            ("access", 20, 2, 50, "write", 1), ("access", 30, 0, 100, "read", 0), ("free", 50, 0, None, None, None),
            ("alloc", 50, 3, 30, "made", None), ("access", 50, 3, 30, "write", 0)])
        self.assertEqual({one[2] for one in self.told(path, "least_bytes=50")}, {0, 2})
        self.assertEqual(self.told(path, "speed=10")[-1][1], 5)

    def test_memory_of_the_segments_was_there(self):
        # The second block is known from the history, the third is free.
        segment = {"device": 1, "address": 4096, "blocks": [block(512, requested=500), block(512),
                                                            block(512, "inactive"), block(1024)]}
        path = self.snapshot([], [event("alloc", 10, 4608, 512)], segments=[segment])
        self.assertEqual([one for one in self.told(path) if one[0] == "alloc"], [
            ("alloc", 0, 1, 500, "kept", None), ("alloc", 0, 2, 1024, "kept", None), ("alloc", 0, 0, 512, "made", None)])

    def test_bad_events(self):
        path = self.snapshot([event("alloc", 10, 8192, 100), event("alloc", 20, 8192, 100), {"action": "alloc"}, 5,
                              event("alloc", -2_000_000, 1, 1), event("alloc", 30, 1, 0)])
        self.assertEqual(sorted(self.bad("torch_snapshot", path)), [
            "2: of GPU 0: address 8192 of GPU 0 is in use", "3: of GPU 0: has no time_us",
            "4: of GPU 0: is not a dictionary", f"5: of GPU 0: time_us: is not a whole number from 0 to {1 << 52}",
            f"6: of GPU 0: 0 bytes are not from 1 to {1 << 50}"])
        path = self.snapshot([event("alloc", 30, 8192, 100), event("alloc", 29, 4096, 100)])
        self.assertEqual(self.bad("torch_snapshot", path), ["2: of GPU 0: is earlier than the event above it"])

    def test_what_is_no_snapshot_is_refused(self):
        for snapshot, told in (([], "is not a dictionary"), ({}, "has no device_traces"),
                               ({"device_traces": [5]}, "is not a list of a list for each GPU"),
                               ({"device_traces": [[]]}, "_record_memory_history"),
                               ({"device_traces": [[event("alloc", 1, 1, 1)]], "segments": [{}]},
                                "segment 1: has no device")):
            path = self.folder / "b.pickle"
            path.write_bytes(pickle.dumps(snapshot))
            self.assertRegex(self.refused("torch_snapshot", path), f"^vmart-lab: .*b.pickle: .*{told}")

    def test_pickles_run_nothing(self):
        class Hostile:
            def __reduce__(self):
                return os.mkdir, (str(self.folder),)

        hostile, path = Hostile(), self.folder / "a.pickle"
        hostile.folder = self.folder / "made"
        path.write_bytes(pickle.dumps({"device_traces": [[hostile]]}))
        said = self.refused("torch_snapshot", path)
        self.assertRegex(said, r"a.pickle: near byte \d+: is not a plain pickle: refers to posix.mkdir")
        self.assertFalse(hostile.folder.exists())

    def test_damaged_pickles_name_the_place(self):
        whole = self.snapshot([event("alloc", 10, 8192, 100)]).read_bytes()
        path = self.folder / "a.pickle"
        # The last one asks for 268 million places twice, which are 4 GiB.
        for data, told in ((whole[:-20], "is cut off|is not a plain pickle"), (b"", "is cut off"), (b"hello\n", "plain"),
                           (b"\x80\x04r\xff\xff\xff\x0f.", "plain"), (b"\x80\x04Nr\xff\xff\xff\x0f.", "more memory")):
            path.write_bytes(data)
            self.assertRegex(self.refused("torch_snapshot", path), rf"a.pickle: near byte \d+: .*({told})")
        path.write_bytes(gzip.compress(whole)[:-15])
        self.assertIn("a.pickle: ", self.refused("torch_snapshot", path))


def launch(us, correlation, thread=1):
    return {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": thread, "ts": 5e6 + us, "dur": 1,
            "args": {"correlation": correlation}}


def kernel(us, duration, correlation, stream=7, gpu=0):
    return {"ph": "X", "cat": "kernel", "name": "k", "ts": 5e6 + us, "dur": duration,
            "args": {"device": gpu, "stream": stream, "correlation": correlation}}


def memory(us, address, size, thread=1, gpu=0, kind=1):
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "tid": thread, "ts": 5e6 + us,
            "args": {"Device Type": kind, "Device Id": gpu, "Addr": address, "Bytes": size, "Total Allocated": 1}}


class Profile(Converting):
    def profile(self, *events):
        return self.file("a.json", json.dumps({"schemaVersion": 1, "traceEvents": [
            {"ph": "M", "name": "process_name", "args": {"name": "python"}}, *events]}, indent=1))

    def told(self, path, *values):
        return [(one["event"], one["time_ns"] // 1000, one.get("object", one.get("task")),
                 one.get("use", one.get("after", one.get("after_task"))))
                for one in self.events("torch_profile", path, *values)]

    # Kernel 11 writes address 64, which a thread allocates before it launches it; 12 of another thread does not. 13 is the
    # last one before the free. Address 32 was there before. The file is in no order.
    EVENTS = (kernel(20, 30, 11), kernel(15, 4, 12, stream=8), kernel(50, 5, 13), launch(4, 12, thread=2), launch(6, 11),
              launch(8, 13), memory(0, 64, 100), memory(9, 64, -100), memory(10, 32, -8), memory(1, 16, 5, kind=0))

    def test_closed_loop(self):
        # 11 starts when it was launched, at 6 us, and 13 after it.
        self.assertEqual(self.told(self.profile(*self.EVENTS)), [
            ("alloc", 0, 1, None), ("alloc", 0, 0, None), ("task", 4, 1, None), ("task", 6, 2, None),
            ("access", 6, 0, "write"), ("task", 36, 3, [2]), ("access", 36, 0, "read"), ("access", 36, 1, "read"),
            ("free", 41, 0, 3), ("free", 41, 1, 3)])

    def test_open_loop(self):
        self.assertEqual(self.told(self.profile(*self.EVENTS), "closed=0"), [
            ("alloc", 0, 1, None), ("alloc", 0, 0, None), ("access", 20, 0, "write"), ("access", 50, 0, "read"),
            ("access", 50, 1, "read"), ("free", 55, 0, None), ("free", 55, 1, None)])

    def test_readers_wait_for_the_writer_on_another_stream(self):
        path = self.profile(memory(0, 64, 100), launch(1, 11), kernel(2, 30, 11), launch(2, 12), memory(3, 64, -100),
                            kernel(9, 5, 12, stream=8))
        self.assertEqual([one for one in self.told(path) if one[0] == "task"], [("task", 1, 1, None), ("task", 31, 2, [1])])

    def test_memory_without_kernels_is_not_used(self):
        path = self.profile(launch(1, 11), kernel(2, 30, 11), memory(3, 64, 100), memory(4, 64, -100), launch(5, 12),
                            kernel(40, 5, 12))
        self.assertEqual([one[0] for one in self.told(path)], ["task", "alloc", "free", "task"])

    def test_small_allocations_may_be_left_out(self):
        path = self.profile(*self.EVENTS)
        self.assertEqual({one[2] for one in self.told(path, "least_bytes=9") if one[0] == "alloc"}, {0})
        self.assertIn("a.json: has 3 kernels, but no allocations of 1000 bytes on GPUs",
                      self.refused("torch_profile", path, "least_bytes=1000"))

    def test_bad_events(self):
        bad = kernel(1, 1, 9)
        del bad["args"]["device"]
        path = self.profile(memory(0, 64, 100), bad, kernel(-6e6, 1, 10), memory(1, 64, 100), memory(2, 32, 0))
        self.assertEqual(self.bad("torch_profile", path), [
            "3: device: is not a whole number from 0 to 1024", "4: ts: is not a time",
            "5: address 64 of GPU 0 is in use", f"6: 0 bytes are not from 1 to {1 << 50}"])

    def test_damage_is_named(self):
        whole = self.profile(*self.EVENTS).read_text()
        for text, told in ((whole[:-30], "event 11: is cut off, or no JSON"), ("{}", "has no traceEvents"),
                           ("[5]", "event 1: is not an object"), ('{"traceEvents":[{"a":]}', "event 1: is cut off, or no"),
                           ('{"traceEvents":[' + "[" * 100_000, "event 1: is cut off, or no JSON"),
                           ('[{"a":"' + "x" * 3_000_000, "event 1: .* has more than 1048576 characters")):
            self.assertRegex(self.refused("torch_profile", self.file("b.json", text)), f"b.json: {told}")

    def test_events_are_found_across_reads(self):
        # Text of 1 MiB is read at a time: its end lies in the name of the list, or in one of the first events.
        for before_end in (*range(0, 40, 3), *range(40, 1000, 50)):
            path = self.file("a.json", '{"a":"' + "y" * ((1 << 20) - before_end) + '","traceEvents": [' + ",".join(
                map(json.dumps, self.EVENTS)) + "]}")
            self.assertEqual(list(events_of(str(path))), list(enumerate(self.EVENTS, start=1)))


if __name__ == "__main__":
    unittest.main()
