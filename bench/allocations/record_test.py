#!/usr/bin/env python3
"""What record.py makes of a history of PyTorch's allocator and of a profile."""

import pathlib
import tempfile
import unittest

import record


class Traces(unittest.TestCase):
    def test_a_history_becomes_blocks_and_streams_in_the_order_of_their_first_use(self):
        def event(action, addr, size, stream):
            return {"action": action, "addr": addr, "size": size, "stream": stream}

        trace = record.from_history([
            event("free_requested", 900, 64, 7),  # From before the recording.
            event("alloc", 100, 512, 7),
            event("segment_alloc", 100, 2 << 20, 7),
            event("alloc", 200, 1000, 0),
            event("free_requested", 100, 512, 7),
            event("free_completed", 100, 512, 7),
            event("alloc", 100, 256, 0),
        ])
        self.assertEqual(trace.lines, ["a 0 512 0", "a 1 1000 1", "f 0 0", "a 2 256 1"])

    def test_a_profile_is_sorted_by_time_and_has_one_stream(self):
        def change(ts, addr, size_bytes):
            return {"name": "[memory]", "ts": ts, "args": {"Addr": addr, "Bytes": size_bytes}}

        trace = record.from_profile([
            change(3, 10, -64), {"name": "aten::add", "ts": 1}, change(2, 10, 64), change(4, 10, 0),
        ])
        self.assertEqual(trace.lines, ["a 0 64 0", "f 0 0"])

    def test_a_file_says_where_it_is_from_and_what_was_held(self):
        trace = record.Trace()
        trace.allocate(1, 64, 0)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "a.txt"
            trace.write(file, "a program", 4096)
            self.assertEqual(file.read_text(), "# a program\nheld 4096\na 0 64 0\n")


if __name__ == "__main__":
    unittest.main()
