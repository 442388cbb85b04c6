#!/usr/bin/env python3
"""Traces in Python: generated as by `vmart-lab`, imported, and written event by event in both forms. Argument: vmart-lab."""

import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest

import vmart
import vmart.lab

PROGRAM = sys.argv[1]
SAMPLES = pathlib.Path(__file__).parents[1] / "importers/samples"


class WithFolder(unittest.TestCase):
    def setUp(self):
        owner = tempfile.TemporaryDirectory()
        self.addCleanup(owner.cleanup)
        self.folder = pathlib.Path(owner.name)

    def program(self, *words):
        done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def lines(self, trace):
        """The events of a trace, as JSON."""
        self.program("convert", "trace", trace.path, self.folder / "shown.jsonl")
        return [json.loads(line) for line in (self.folder / "shown.jsonl").read_text().splitlines()]


class Generated(WithFolder):
    def test_is_what_the_program_generates(self):
        made = vmart.lab.generate("moe", self.folder / "a.vtrace", seed=5, gpus=4, steps=20, object_bytes="16MiB", skew=0.5)
        self.program("generate", "moe", self.folder / "b.vtrace", "--seed", 5, "--param", "gpus=4", "--param", "steps=20",
                     "--param", f"object_bytes={16 << 20}", "--param", "skew=0.5")  # fmt: skip
        self.assertEqual(made.path.read_bytes(), (self.folder / "b.vtrace").read_bytes())

    def test_what_there_is_not_is_refused(self):
        for call, text in ((lambda: vmart.lab.generate("zipf"), "^vmart.lab.generate: \"zipf\" is not a generator; known are moe, "),
                           (lambda: vmart.lab.generate("moe", gpu=4), '"gpu" is not a parameter; the parameters are\n'),
                           (lambda: vmart.lab.generate("moe", gpus=0), "gpus"),
                           (lambda: vmart.lab.generate("moe", "a.csv"), "a.csv: must end in .vtrace or .jsonl"),
                           (lambda: vmart.lab.generate("moe", seed=-1), "seed is -1")):  # fmt: skip
            with self.assertRaisesRegex(vmart.InvalidArgument, text):
                call()
        with self.assertRaisesRegex(TypeError, "gpus is"):
            vmart.lab.generate("moe", gpus=[4])

    def test_all_generators_are_listed_and_work(self):
        for kind, one in vmart.lab.generators().items():
            self.assertTrue(one["meaning"])
            self.assertIn(f'"{kind}"', vmart.lab.generate.__doc__)
            for name, parameter in one["parameters"].items():
                self.assertTrue(parameter["least"] <= parameter["default"] <= parameter["most"], name)
            made = vmart.lab.generate(kind)
            self.assertEqual((made.name, made.summary["faults"]), (kind, []))
            self.assertGreater(made.summary["counts"]["access"], 0, kind)

    def test_a_temporary_trace_ends_with_its_object(self):
        trace = vmart.lab.generate("pipeline", iterations=1)
        path = trace.path
        self.assertTrue(path.exists())
        del trace
        self.assertFalse(path.parent.exists())

    def test_a_forked_child_leaves_the_file(self):
        trace = vmart.lab.generate("pipeline", iterations=1)
        child = os.fork()
        if child == 0:
            del trace
            os._exit(0)
        os.waitpid(child, 0)
        self.assertTrue(trace.path.exists())

    def test_a_trace_by_its_path_stays(self):
        path = vmart.lab.generate("pipeline", self.folder / "kept.vtrace", iterations=1).path
        self.assertTrue(path.exists())
        self.assertEqual(vmart.lab.Trace(path).name, "pipeline")
        self.assertTrue(vmart.lab.Trace(path).closed_loop)
        self.assertIn("No such file", repr(vmart.lab.Trace(self.folder / "none.vtrace")))


class Imported(WithFolder):
    def test_becomes_a_trace(self):
        trace = vmart.lab.import_("mooncake", SAMPLES / "mooncake-a.jsonl", program=PROGRAM, keep_s=60)
        self.assertGreater(trace.summary["counts"]["access"], 0)
        self.assertEqual(trace.summary["bad_lines"], len(trace.summary["first_bad_lines"]))
        self.assertEqual(trace.name, "mooncake mooncake-a.jsonl")
        self.assertGreater(vmart.lab.replay(trace, machine="h200x4", policy="static").metrics["accesses"], 0)
        with self.assertRaisesRegex(ValueError, '"cake" is not a format; known are trace, azure'):
            vmart.lab.import_("cake", SAMPLES / "mooncake-a.jsonl", program=PROGRAM)


class Written(WithFolder):
    def test_each_event_is_as_the_page_has_it(self):
        with vmart.lab.TraceWriter(self.folder / "a.jsonl", name="all", origin="by hand", licence="MIT") as writer:
            writer.alloc(0, 1, "64MiB", tag="kv", chunk="2MiB", home="gpu0")
            writer.access(1e-6, 1, use="write")
            writer.access(1e-6, 1, "1MiB", offset="2MiB", passes=500, duration=15, device="gpu1")
            writer.hint(2e-6, 1, next_use=0.5, passes=2, until=10, read_mostly=True, device=0)
            writer.place(3e-6, 1, "host0", "32MiB", offset="32MiB")
            writer.tag(4e-6, 1, "old")
            writer.mark(5e-6, "second")
            first = writer.task(6e-6, compute=0.002, request=7, device="gpu0")
            writer.access(6e-6, 1, task=first)
            second = writer.task(7e-6, compute=0.03, repeat=500, request=7, after=[first])
            writer.access(7e-6, 1, task=second)
            writer.free(15, 1, after_task=second)
        events = self.lines(writer.trace)
        self.assertEqual(events[0] | {"vmart_trace": 0, "made": 0},
                         {"vmart_trace": 0, "name": "all", "origin": "by hand", "licence": "MIT", "made": 0})
        self.assertEqual([event["event"] for event in events[1:]],
                         ["alloc", "access", "access", "hint", "place", "tag", "mark", "task", "access", "task", "access",
                          "free"])  # fmt: skip
        shown = {name: [e for e in events[1:] if e["event"] == name] for name in ("alloc", "access", "hint", "place", "task", "free")}
        self.assertEqual(shown["alloc"][0], {"event": "alloc", "time_ns": 0, "object": 1, "bytes": 64 << 20, "tag": "kv",
                                             "chunk_bytes": 2 << 20, "home": "gpu(0)"})  # fmt: skip
        self.assertEqual(shown["access"][0], {"event": "access", "time_ns": 1000, "object": 1, "bytes": 64 << 20, "use": "write"})
        self.assertEqual(shown["access"][1],
                         {"event": "access", "time_ns": 1000, "object": 1, "offset": 2 << 20, "bytes": 1 << 20, "passes": 500,
                          "duration_ns": 15 * 10**9, "device": 1, "use": "read"})  # fmt: skip
        self.assertEqual(shown["hint"][0] | {"passes": 2}, {
            "event": "hint", "time_ns": 2000, "object": 1, "bytes": 64 << 20, "next_use_ns": 5 * 10**8, "passes": 2,
            "until_ns": 10**10, "use": "read", "device": 0})  # fmt: skip
        self.assertEqual(shown["place"][0]["home"], "host(0)")
        self.assertEqual(shown["task"][1]["after"], [first])
        self.assertEqual((shown["task"][1]["repeat"], shown["task"][1]["compute_ns"]), (500, 30_000_000))
        self.assertEqual(shown["free"][0]["after_task"], second)

    def test_order_does_not_matter_between_times(self):
        with vmart.lab.TraceWriter() as writer:
            writer.alloc(0, 1, 4096)
            writer.free(2, 1)
            writer.access(1, 1, device=0)
        self.assertEqual([event["event"] for event in self.lines(writer.trace)[1:]], ["alloc", "access", "free"])

    def test_it_can_be_replayed(self):
        with vmart.lab.TraceWriter(name="one") as writer:
            writer.alloc(0, 1, "64MiB", home="host0")
            previous = []
            for _ in range(10):
                previous = [writer.task(0, after=previous, compute=0.001, device=0)]
                writer.access(0, 1, task=previous[0])
        result = vmart.lab.replay(writer, machine="h200x2", policy="stay_put")
        self.assertEqual((result.metrics["accesses"], result.measure, result.trace.name), (10, "seconds", "one"))
        self.assertGreater(result.metrics["host_share"], 0.99)

    def test_integers_are_those_of_any_type(self):
        class Integer:  # As those of NumPy, which json refuses.
            def __init__(self, value):
                self.value = value

            def __index__(self):
                return self.value

        files = []
        for make in (int, Integer):
            with vmart.lab.TraceWriter(self.folder / "a.jsonl") as writer:
                writer.alloc(0, make(1), make(4096))
                first = writer.task(0, repeat=make(2), request=make(3), device=make(1))
                writer.access(0, make(1), task=make(first))
                second = writer.task(0, after=make(first))
                writer.task(0, after=[make(first), make(second)])
                writer.free(1, make(1), after_task=make(second))
            files.append(writer.trace.path.read_bytes())
        self.assertEqual(files[0], files[1])

    def test_what_is_wrong_says_so_and_leaves_the_file(self):
        path = self.folder / "kept.vtrace"
        vmart.lab.generate("pipeline", path, iterations=1)
        before = path.read_bytes()
        for write, text in (
            (lambda w: w.access(0, 9), "there is no object 9; alloc it before its access"),
            (lambda w: w.alloc(0, 1, 0), "nbytes is 0"),
            (lambda w: w.access(0, 1, "1MiB", device=0), "^vmart.lab.TraceWriter: at 0 ns: 1 MiB from 0 on of object 1, which has 4096"),
            (lambda w: w.access(-1, 1), "^vmart.lab.TraceWriter: time is -1"),
            (lambda w: w.advance(-1), "^vmart.lab.TraceWriter: time is -1"),
            (lambda w: w.access(0, 1, device="host0"), "device is 'host0'; it may be a GPU"),
            (lambda w: w.access(0, 1, use="reads"), 'it may be "read", "write" or "read_write"'),
            (lambda w: w.free(0, 2), "at 0 ns: "),
            (lambda w: (w.advance(1), w.free(0, 1)), "arrived after"),
            (lambda w: w.access(0, 1, passes=-1), "passes"),
            (lambda w: w.access(0, 1, passes=float("nan")), "passes is nan"),
            (lambda w: w.hint(0, 1, passes=float("inf")), "passes is inf"),
        ):
            with self.assertRaisesRegex(vmart.InvalidArgument, text):
                with vmart.lab.TraceWriter(path) as writer:
                    writer.alloc(0, 1, 4096)
                    write(writer)
            self.assertEqual(path.read_bytes(), before)
        for write, text in ((lambda w: w.access(0, 1, passes="x"), "passes is 'x', a str"),
                            (lambda w: w.task(0, after=1.5), "after is 1.5, a float"),
                            (lambda w: w.access(0, 1.5), "object is 1.5, a float")):  # fmt: skip
            with self.assertRaisesRegex(TypeError, text), vmart.lab.TraceWriter(path) as writer:
                writer.alloc(0, 1, 4096)
                write(writer)
        with self.assertRaisesRegex(vmart.InvalidArgument, "not finished"):
            vmart.lab.replay(vmart.lab.TraceWriter())
        with self.assertRaisesRegex(vmart.InvalidArgument, "no events"):
            vmart.lab.TraceWriter().close()
        with vmart.lab.TraceWriter() as writer:
            writer.alloc(0, 1, 4096)
        with self.assertRaisesRegex(vmart.InvalidArgument, "is finished"):
            writer.free(1, 1)

    def test_a_path_goes_to_other_processes(self):
        for path in (self.folder / "a.vtrace", None):
            trace = vmart.lab.generate("pipeline", path, iterations=1)
            other = pickle.loads(pickle.dumps(trace))
            self.assertEqual(other.path, trace.path)
            del other
            self.assertTrue(trace.path.exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
