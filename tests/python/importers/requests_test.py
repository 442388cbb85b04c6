#!/usr/bin/env python3
"""Requests to language models become the accesses that their importers promise: requests_test.py VMART_LAB.
Method: expectations computed by hand, as lines of the trace."""

import collections
import json
import unittest

from converting import Converting

from vmart.lab.importers.input_lines import lines_of
from vmart.lab.importers.random_numbers import RandomNumbers
from vmart.lab.importers.servegen import gamma, weibull

SECOND = 1_000_000_000
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
VIDUR = "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"
THREE = f"""{AZURE}2023-11-16 23:59:59.9999000,100,4
2023-11-17 00:00:00.0009,5,0
2023-11-17 00:00:01,0,1"""


def alloc(time, thing, size, **rest):
    return {"event": "alloc", "time_ns": time, "object": thing, "bytes": size, **rest, "tag": "kv"}


def access(time, thing, size, use="read", **rest):
    return {"event": "access", "time_ns": time, "object": thing, "bytes": size, "use": use, **rest}


def free(time, thing, **rest):
    return {"event": "free", "time_ns": time, "object": thing, **rest}


def task(time, number, request, compute=0, **rest):
    work = {"compute_ns": compute} if compute else {}
    return {"event": "task", "time_ns": time, "task": number, **work, "request": request, **rest}


def hints(events):
    """ "time: task, bytes of object, passes until" in ms."""
    return [f"{one['time_ns'] // 1_000_000}: task {one.get('task', one.get('after_task'))}, {one['bytes']} of "
            f"{one['object']}, {one['passes']:g} until {one['until_ns'] // 1_000_000}"
            for one in events if one["event"] == "hint"]


class OwnCaches(Converting):
    def azure(self, text, *values):
        return self.events("azure", self.file("a.csv", text), *values)

    def test_open_loop(self):
        # Tokens of 10 bytes, 1 ms each: a prompt of 100 and 4 output tokens read 4*100 + 0+1+2+3 tokens.
        end, third = 4_000_000, SECOND + 100_000
        passes = 3.903846263885498  # 406/104, as a float of 32 bits.
        self.assertEqual(self.azure(THREE, "token_bytes=10", "token_us=1000", "closed=0"), [
            alloc(0, 1, 1040), access(0, 1, 1000, "write", task=1),
            access(0, 1, 1040, passes=passes, duration_ns=end, task=1),
            access(0, 1, 40, "write", offset=1000, duration_ns=end, task=1),
            alloc(1_000_000, 2, 50), access(1_000_000, 2, 50, "write", task=2), free(1_000_000, 2), free(end, 1),
            alloc(third, 3, 10), access(third, 3, 10, "write", duration_ns=1_000_000, task=3),
            free(third + 1_000_000, 3)])

    def test_closed_loop(self):
        # Each of the four tokens reads a quarter of the 406, and writes one of the four.
        token, third = 100_000, SECOND + 100_000
        self.assertEqual(self.azure(THREE, "token_bytes=10", "token_us=1000", "prefill_tokens_s=1e6"), [
            alloc(0, 1, 1040), task(0, 1, 1, 100_000), access(0, 1, 1000, "write", task=1),
            task(token, 2, 1, 1_000_000, repeat=4, after=[1]),
            access(token, 1, 1040, passes=0.9759615659713745, task=2),
            access(token, 1, 40, "write", offset=1000, passes=0.25, task=2),
            alloc(1_000_000, 2, 50), task(1_000_000, 3, 2, 5000), access(1_000_000, 2, 50, "write", task=3),
            free(1_005_000, 2, after_task=3), free(token + 4_000_000, 1, after_task=2),
            alloc(third, 3, 10), task(third, 4, 3, 1_000_000), access(third, 3, 10, "write", task=4),
            free(third + 1_000_000, 3, after_task=4)])

    def test_years_that_no_trace_has_are_bad_lines(self):
        text = AZURE + "".join(f"{year}-12-31 23:59:59,1,1\n" for year in (1969, 1970, 2200, 2201, 9999))
        self.assertEqual(self.bad("azure", self.file("a.csv", text)), [
            f'{line}: TIMESTAMP: "{year}" is not a whole number from 1970 to 2200'
            for line, year in ((2, 1969), (5, 2201), (6, 9999))])

    def test_a_line_without_end_is_not_read_whole(self):
        path = self.file("a.csv", f"{AZURE}{'x' * 5_000_000}\n2023-11-16 23:59:59,1,1\n")
        read = [(number, len(line)) for number, line in lines_of(str(path))]
        self.assertEqual([number for number, _ in read], [1, 2, 3])
        self.assertLess(read[1][1], 2_000_000)
        self.assertEqual(self.bad("azure", path), ["2: is too long"])

    def test_caches_can_grow(self):
        # Two parts of two tokens and one, each with a task of its own.
        part, token = 1 << 33, 1_000_000
        text = f"{AZURE}2023-11-16 23:59:59,100,3\n"
        self.assertEqual(self.azure(text, "token_bytes=10", "token_us=1000", "grow_tokens=2"), [
            alloc(0, 1, 1000), task(0, 1, 1), access(0, 1, 1000, "write", task=1),
            alloc(0, part, 20, after_task=1), task(0, 2, 1, token, repeat=2, after=[1]),
            access(0, 1, 1000, task=2), access(0, part, 20, passes=0.25, task=2),
            access(0, part, 20, "write", passes=0.5, task=2),
            alloc(2 * token, part + 1, 10, after_task=2), task(2 * token, 3, 1, token, after=[2]),
            access(2 * token, 1, 1000, task=3), access(2 * token, part, 20, task=3),
            access(2 * token, part + 1, 10, "write", task=3),
            *(free(3 * token, thing, after_task=3) for thing in (1, part, part + 1))])

    def test_each_request_reads_the_weights_of_its_gpu(self):
        # The third request comes while each of two GPUs has one, and shares the steps of the first GPU.
        times = ("00:00:00", "00:00:00", "00:00:00.001")
        text = AZURE + "".join(f"2023-11-16 {time},100,4\n" for time in times)
        for loop in ("closed=0", "closed=1", "grow_tokens=3"):
            passes, steps = collections.Counter(), 1
            for one in self.azure(text, "token_bytes=1", "token_us=1000", "weight_bytes=1000", "gpus=2", loop):
                steps = one.get("repeat", 1) if one["event"] == "task" else steps
                if one["event"] == "access" and one["object"] >= 1 << 62:
                    self.assertEqual((one["device"], one["bytes"]), (one["object"] - (1 << 62), 1000))
                    passes[one["device"]] += one.get("passes", 1) * steps
            self.assertEqual(passes, {0: 1 + 4 + 1 + 4 / 2, 1: 1 + 4}, loop)

    def test_outputs_announce_what_a_server_expects(self):
        # Outputs of 10 and 20 tokens have ended when the third request comes, which expects 15.
        text = AZURE + "".join(f"2023-11-16 18:00:0{time},5,{tokens}\n"
                               for time, tokens in ((0, 10), (0, 20), (9, 100)))
        events = self.azure(text, "token_bytes=2", "token_us=100000", "hints=1")
        self.assertEqual(hints(events), ["9000: task 6, 210 of 3, 15 until 1500"])

    def test_the_first_requests_are_taken(self):
        self.assertEqual(self.azure(THREE, "requests=2"), self.azure(THREE[:THREE.rindex("\n")]))
        bad_first = f"{AZURE}yesterday,1,1\n2023-11-17 00:00:00,5,0\n2023-11-17 00:00:01,5,0\n"
        self.assertEqual({one["object"] for one in self.azure(bad_first, "requests=1", "closed=0")}, {2})

    def test_bad_lines_of_azure(self):
        text = AZURE + "\n".join(("2023-11-16 18:00:00.5,1,1", "2023-11-16 18:00:00.4,1,1", "2023-02-30 18:00:00,1,1",
                                  "2023-11-16T18:00:00,1,1", "2023-11-16 18:00:01,x,1", "2023-11-16 18:00:01,1",
                                  "2023-11-16 18:00:01,0,0", "", "2023-11-16 18:00:01,1,1",
                                  "2023-11-16 18:00:02,90000000,1"))
        self.assertEqual(self.bad("azure", self.file("a.csv", text), "token_bytes=1e9"), [
            "3: is earlier than the request above it", "4: TIMESTAMP: is not a date", "5: TIMESTAMP: is not a time",
            '6: ContextTokens: "x" is not a whole number from 0 to 100000000', "7: has 2 fields, not 3",
            "8: has no tokens", "11: at 1500000000 ns: its object is too large"])

    def test_arrivals_of_vidur_depend_on_the_seed(self):
        path = self.file("a.csv", f"{VIDUR}10,2,12,5.0\n1,1,3,1.0\n20,1,21,20.0\n")
        self.assertEqual(self.bad("vidur", path), ['3: num_total_tokens: "3" is not a whole number from 2 to 2'])
        events = self.events("vidur", path)
        self.assertEqual(self.events("vidur", path), events)
        self.assertNotEqual(self.events("vidur", path, seed=2), events)

    def test_llmservingsim_has_measured_times(self):
        line = ('{"input_toks":10,"output_toks":4,"queued_ts":5.0,"scheduled_ts":5.25,"first_token_ts":6,'
                '"last_token_ts":7.123456789}\n')
        events = self.events("llmservingsim", self.file("a.jsonl", line), "token_bytes=1", "closed=0")
        self.assertEqual([events[0], events[1], events[-1]],
                         [alloc(SECOND // 4, 1, 14), access(SECOND // 4, 1, 10, "write", duration_ns=SECOND * 3 // 4,
                                                            task=1), free(2_123_456_789, 1)])
        early = line.replace("5.25", "4").replace("5.0", "3")
        self.assertEqual(self.bad("llmservingsim", self.file("b.jsonl", line + early + line.replace("10", '"x"'))), [
            "2: was scheduled before the first request was queued", "3: the line: input_toks: is not a whole number"])


class Clients(Converting):
    """Of ServeGen. A window is a line; lengths are those of the last line of the dataset that holds."""

    def client(self, number, windows, lengths):
        self.file(f"chunk-{number}-dataset.json", json.dumps(
            {second: {key: str(value) for key, value in fields.items()} for second, fields in lengths.items()}))
        return self.file(f"chunk-{number}-trace.csv", "".join(f"{one}\n" for one in windows))

    def starts(self, path, *values, seed=1):
        """Of each request in ms, and the bytes of its cache."""
        return [(one["time_ns"] // 1_000_000, one["bytes"]) for one in
                self.events("servegen", path, "token_bytes=1", *values, seed=seed) if one["event"] == "alloc"]

    WINDOWS = ("0,0,0,,0,0", "600,0.05,1,Gamma,4,1", "1200,0.1,3,Weibull,0.5,1", "1800,0,0,,0,0")
    LENGTHS = {"0": {"input_tokens": {10: 1.0}, "output_tokens": {5: 1.0}}, "600": {"input_tokens": {}, "output_tokens": {}},
               "1200": {"input_tokens": {100: 0.5, 200: 0.5}, "output_tokens": {1: 0.5, 2: 0.5}}}

    def test_windows_have_the_requests_of_their_rates(self):
        # 30 requests of 15 tokens in 600 s, and 60 in the next: half of 101 tokens, half of 202.
        path = self.client(3, self.WINDOWS, self.LENGTHS)
        starts = self.starts(path)
        self.assertEqual([size for time, size in starts if time < 600_000 or size == 15], [15] * 30)
        self.assertEqual({size for time, size in starts[30:]}, {101, 202})
        self.assertEqual(len(starts), 90)
        self.assertAlmostEqual(starts[29][0], 600_000, delta=1)  # Gaps fill their window.
        self.assertAlmostEqual(starts[-1][0], 1_200_000, delta=1)
        self.assertGreater(len({time // 1000 for time, _ in starts}), 60)
        self.assertEqual(self.starts(path), starts)
        self.assertNotEqual(self.starts(path, seed=2), starts)
        self.assertEqual(len(self.starts(path, "rate_scale=2", "from_s=601", "seconds=600")), 120)
        self.assertEqual(len(self.starts(path, "requests=7")), 7)

    def test_a_folder_is_all_its_clients(self):
        self.client(3, self.WINDOWS, self.LENGTHS)
        self.client(12, ("1200,0.01,1,Gamma,1,1",), {"0": {"text_tokens": {7: 1}, "image_count": {2: 1}, "image_tokens":
                                                          {500: 1}, "reason_ratio": {0.5: 1}, "output_tokens": {1: 1}}})
        starts = self.starts(self.folder)
        self.assertEqual(collections.Counter(size for _, size in starts)[1008], 6)
        self.assertEqual((len(starts), starts), (96, sorted(starts, key=lambda one: one[0])))

    def test_bad_lines_and_files(self):
        path = self.client(3, (*self.WINDOWS, "1800,1,1,Gamma,1,1", "2400,1,1,Pareto,1,1", "2400,1,1,Gamma,0,1", "2400,-1,0,,0,0",
                               "2400"), self.LENGTHS)
        self.assertEqual(self.bad("servegen", path), [
            "5: is not later than the window above it", '6: "Pareto" is not a kind of gaps',
            "7: a shape of 0 is not from 0.01 to 1000000", '8: "-1" is not a number from 0 to 1000000000000',
            "9: has 1 fields, not 6"])
        self.assertIn("9: of chunk-3-trace.csv: has 1 fields, not 6", self.bad("servegen", self.folder))
        for lengths, told in (({"600": {"output_tokens": {1: 1}}}, "600: has no input_tokens or text_tokens"),
                              ({"600": {"input_tokens": "__import__('os')", "output_tokens": {1: 1}}},
                               "600: input_tokens: is not a distribution"), ({"x": {}}, "is not a dataset of ServeGen")):
            self.assertIn(f"chunk-3-dataset.json: {told}",
                          self.refused("servegen", self.client(3, self.WINDOWS, lengths)))
        (self.folder / "chunk-3-dataset.json").unlink()
        self.assertIn("expected NAME-trace.csv with NAME-dataset.json in the same", self.refused("servegen", path))
        path.unlink()
        self.assertIn("has no chunk-*-trace.csv", self.refused("servegen", self.folder))

    def test_gaps_have_their_means(self):
        random, count = RandomNumbers(1), 20_000
        for draw, shape, mean in ((gamma, 0.3, 0.3), (gamma, 4, 4), (weibull, 0.5, 2), (weibull, 2, 0.886227)):
            average = sum(draw(random, shape) for _ in range(count)) / count
            self.assertAlmostEqual(average / mean, 1, delta=0.06)


class SharedBlocks(Converting):
    def requests(self, *rows):
        return self.file("a.jsonl", "".join(
            f'{{"timestamp":{time},"input_length":{length},"output_length":{output},"hash_ids":{ids}}}\n'
            for time, length, output, ids in rows))

    def test_closed_loop(self):
        # 1000 tokens a second, of which the second request processes none: it waits for the one that writes its
        # block. The last request gets another object for it.
        path = self.requests((0, 600, 10, [4, 9]), (100, 512, 0, [4]), (4000, 1, 0, [4]))
        token, last = SECOND * 3 // 5, 4 * SECOND + 1_000_000
        events = self.events("mooncake", path, "token_bytes=2", "token_us=100000", "keep_s=2",
                             "prefill_tokens_s=1000")
        self.assertEqual(events, [
            alloc(0, 0, 1024), alloc(0, 1, 1024), task(0, 1, 1, token), access(0, 0, 1024, "write", task=1),
            access(0, 1, 176, "write", task=1), task(token, 2, 1, SECOND // 10, repeat=10, after=[1]),
            access(token, 0, 1024, task=2), access(token, 1, 176, task=2),
            task(token, 3, 2, after=[1]), access(token, 0, 1024, task=3),
            free(token + 3 * SECOND, 0, after_task=2), free(token + 3 * SECOND, 1, after_task=2),
            alloc(4 * SECOND, 2, 1024), task(4 * SECOND, 4, 3, 1_000_000), access(4 * SECOND, 2, 2, "write", task=4),
            free(last + 2 * SECOND, 2, after_task=4)])

    def test_a_block_is_kept_while_it_is_used_again(self):
        path = self.requests(*((time, 512, 0, [7]) for time in range(0, 9001, 1500)))
        events = self.events("mooncake", path, "keep_s=2", "closed=0")
        self.assertEqual(collections.Counter(one["event"] for one in events), {"alloc": 1, "access": 7, "free": 1})
        self.assertEqual(events[-1], free(11 * SECOND, 7))

    def test_idle_blocks_are_announced(self):
        # Block 1 was idle for 2 s before the second request, whose blocks may be idle as long when it ends.
        path = self.requests((0, 512, 10, [1]), (3000, 1024, 10, [1, 2]), (3500, 512, 20, [1]))
        events = self.events("mooncake", path, "token_bytes=2", "token_us=100000", "keep_s=60", "hints=1")
        self.assertEqual(hints(events), [
            "3000: task 4, 1024 of 0, 10 until 1000", "3000: task 4, 1024 of 1, 10 until 1000",
            "3500: task 6, 1024 of 0, 10 until 1000", "4000: task 4, 1024 of 1, 0 until 2000",
            "5500: task 6, 1024 of 0, 0 until 2000"])

    def test_bad_lines(self):
        path = self.requests((5, 1, 0, [1]), (4, 1, 0, [1]), (6, 513, 0, [1]), (6, 1, 0, [-1]), (6, 1, 0, "true"))
        with path.open("a") as file:
            file.write('{"timestamp":6,"input_length":1,"output_length":0}\n{"timestamp":NaN}\n[1]\n{"timestamp":6\n')
        bad = self.bad("mooncake", path)
        self.assertEqual(bad[:-1], [
            "2: is earlier than the request above it", "3: hash_ids: are 1, and 513 tokens have 2",
            "4: hash_ids: contains something other than a whole number", "5: the line: hash_ids: is not a list",
            "6: the line: hash_ids: is missing", "7: NaN is not a number of JSON",
            "8: the line: the whole file: is not an object"])
        self.assertRegex(bad[-1], "^9: Expecting ',' delimiter")


if __name__ == "__main__":
    unittest.main()
