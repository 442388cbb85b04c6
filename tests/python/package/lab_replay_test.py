#!/usr/bin/env python3
"""Replays in the process of Python: the numbers of `vmart-lab replay`, policies of Python as in the runtime, a C++ one from a
library, exceptions with their traceback, and data frames. Arguments: vmart-lab, a policy library, one that is none."""

import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest
from unittest import mock

import vmart
import vmart.lab

PROGRAM, LIBRARY, NO_POLICY = sys.argv[1:4]
SMALL = {"gpus": 4, "length_s": 2, "objects": 200}


class Follow(vmart.Policy):
    """Moves a chunk to the GPU that makes the third remote use."""

    parameters = {"uses": 3}

    def __init__(self, uses=3):
        self.uses = uses
        self.seen = {}
        self.calls = set()

    def on_use(self, chunk, device, bytes_read, bytes_written, snapshot, plan):
        self.calls.add("on_use")
        if snapshot.chunk(chunk).at == device:
            return
        self.seen[chunk] = self.seen.get(chunk, 0) + 1
        if self.seen[chunk] >= self.uses:
            del self.seen[chunk]
            plan.move(chunk, device, 1.0, "it is used there")

    def on_result(self, chunk, source, target, moved, took, stall, snapshot):
        self.calls.add("on_result")

    def on_gone(self, chunk):
        self.calls.add("on_gone")
        self.seen.pop(chunk, None)


class Eager(vmart.Policy):
    """As good.cpp, the library."""

    def on_use(self, chunk, device, bytes_read, bytes_written, snapshot, plan):
        plan.move(chunk, device, 3.0, "it is used there")


class Fails(vmart.Policy):
    parameters = {"after": 0}

    def __init__(self, after=0):
        self.left = int(after)

    def on_tick(self, snapshot, plan):
        self.left -= 1
        if self.left < 0:
            raise ZeroDivisionError("of the policy")


class Replays(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.drift = vmart.lab.generate("zipf-drift", seed=7, **SMALL)
        cls.loop = vmart.lab.generate("pipeline", iterations=3)

    def replay(self, trace=None, **options):
        return vmart.lab.replay(trace or self.drift, **{"machine": "h200x4", "hbm": "2GiB", **options})

    def test_is_what_the_program_prints(self):
        for trace in (self.drift, self.loop):
            for policy in ("static", "auto", "counter:theta=2", "two_touch", f"{LIBRARY}:uses=3"):
                words = [PROGRAM, "replay", trace.path, "--machine", "h200x4", "--hbm", "2GiB", "--policy", policy,
                         "--stall-budget", "60", "--use-interval", "5", "--json"]  # fmt: skip
                done = subprocess.run(words, capture_output=True, text=True, check=True)
                result = self.replay(trace, policy=policy, stall_budget=0.06, use_interval=0.005)
                told = json.loads(done.stdout)
                self.assertEqual((result.seconds, result.moves), (told["metrics"]["seconds"], told["metrics"]["moves"]))
                self.assertEqual(result.report, told)
        self.assertGreater(self.replay(policy="auto").moves, 0)

    def test_a_policy_of_python_decides(self):
        result = self.replay(policy=Follow)
        self.assertGreater(result.moves, 0)
        self.assertEqual(result.policy_object.calls, {"on_use", "on_result", "on_gone"})
        self.assertEqual(result.policy_object.uses, 3)

    def test_a_hint_is_no_use(self):
        class Counts(vmart.Policy):
            uses = 0

            def on_use(self, chunk, device, bytes_read, bytes_written, snapshot, plan):
                self.uses += 1
                assert bytes_read > 0

        with vmart.lab.TraceWriter() as writer:
            writer.alloc(0, 1, "2MiB")
            writer.access(0.1, 1, device=0)
            for number in range(5):
                writer.hint(0.2 + number, 1, device=1)
            writer.free(9, 1)
        result = self.replay(writer.trace, policy=Counts)
        self.assertEqual((result.policy_object.uses, result.report["hints"]), (1, 5))

    def test_one_of_cpp_with_the_same_rule_decides_the_same(self):
        for trace in (self.drift, self.loop):
            mine, its = self.replay(trace, policy=Eager()), self.replay(trace, policy=f"{LIBRARY}:uses=3")
            self.assertEqual({**mine.report, "inputs": 0}, {**its.report, "inputs": 0})
            self.assertGreater(mine.moves, 0)

    def test_the_same_arguments_give_the_same_result(self):
        policy = Follow(5)
        first = self.replay(policy=policy)
        self.assertEqual(policy.seen, {})  # A copy decided.
        self.assertIsNot(first.policy_object, policy)
        self.assertEqual(first.report, self.replay(policy=policy).report)
        self.assertEqual(first.report["moves"], self.replay(policy="Follow:uses=5", policies=[Follow]).moves)
        self.assertNotEqual(first.moves, self.replay(policy=Follow(50)).moves)

    def test_a_guard_goes_around_it(self):
        self.assertLess(self.replay(policy="guarded+Follow", policies=[Follow]).moves, self.replay(policy=Follow).moves)

    def test_what_it_raises_comes_out_with_its_traceback(self):
        for policy in (Fails, Fails(3)):
            try:
                self.replay(policy=policy)
                self.fail("nothing came out")
            except ZeroDivisionError as error:
                self.assertEqual(str(error), "of the policy")
                self.assertEqual(traceback.extract_tb(error.__traceback__)[-1].name, "on_tick")
        self.assertEqual(self.replay(policy=Fails(1 << 40)).metrics["policy_failures"], 0)

        class Unmade(vmart.Policy):
            def __init__(self):
                raise KeyError("nothing to be made of")

        with self.assertRaisesRegex(KeyError, "nothing to be made of"):
            self.replay(policy=Unmade)

    def test_errors_of_vmart_come_out_of_a_policy_too(self):
        class Asks(vmart.Policy):
            def on_tick(self, snapshot, plan):
                snapshot.chunk(99999)

        class Own(vmart.InvalidArgument):
            def __init__(self, number):
                super().__init__(f"number {number}")

        class Raises(vmart.Policy):
            def on_tick(self, snapshot, plan):
                raise Own(3)

        for policy, kind, text in ((Asks, vmart.InvalidArgument, "no chunk 99999"), (Raises, Own, "number 3")):
            try:
                self.replay(policy=policy)
                self.fail("nothing came out")
            except kind as error:
                self.assertIn(text, str(error))
                self.assertIn("on_tick", [frame.name for frame in traceback.extract_tb(error.__traceback__)])

    def test_a_forked_child_refuses_policies_of_python(self):
        self.replay(policy=Fails(1 << 40))
        child = os.fork()
        if child == 0:
            status = 1
            try:
                self.replay(policy=Fails(1 << 40))
            except vmart.Unsupported as error:
                status = 0 if "spawn" in str(error) else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_what_ends_programs_is_never_counted(self):
        class Ends(vmart.Policy):
            what = KeyboardInterrupt

            def on_tick(self, snapshot, plan):
                raise self.what("of the policy")

        class Exits(Ends):
            what = SystemExit

        for policy in (Ends, Exits, Exits()):
            with self.assertRaises(policy.what):
                self.replay(policy=policy, on_failure="count")

    def test_places_may_be_texts(self):
        class Texts(vmart.Policy):
            def on_alloc(self, nbytes, device, tag, snapshot):
                return "host0"

            def on_use(self, chunk, device, bytes_read, bytes_written, snapshot, plan):
                assert snapshot.access_rate("gpu1", "gpu1") == snapshot.access_rate(vmart.gpu(1), vmart.gpu(1))
                assert snapshot.move_time("host0", "gpu1", 4096) > 0
                plan.move(chunk, "gpu1", 3.0, "as a text")

            def on_pressure(self, at, nbytes, snapshot, plan):
                plan.evict(snapshot.chunks[0], "host0", "as a text")

        class Places(Texts):
            def on_alloc(self, nbytes, device, tag, snapshot):
                return vmart.host(0)

            def on_use(self, chunk, device, bytes_read, bytes_written, snapshot, plan):
                plan.move(chunk, vmart.gpu(1), 3.0, "as a text")

        result = self.replay(policy=Texts)
        self.assertGreater(result.moves, 0)
        self.assertEqual({**result.report, "inputs": 0}, {**self.replay(policy=Places).report, "inputs": 0})

    def test_what_is_no_place_is_named(self):
        class Chooses(vmart.Policy):
            def __init__(self, chosen):
                self.chosen, self.home = chosen, vmart.gpu(0)  # Which can be copied.

            def on_alloc(self, nbytes, device, tag, snapshot):
                return self.chosen

        for chosen, text in ((3, "^vmart.lab.replay: Chooses.on_alloc returned 3, a int; it may return a place, such as \"gpu1\""),
                             (["gpu0"], r"returned \[.*\], a list"), ("gpu", "gpu"), ("gpu9", "no place of the machine")):
            with self.assertRaisesRegex(vmart.InvalidArgument, text):
                self.replay(policy=Chooses(chosen))

    def test_it_may_be_counted_instead(self):
        result = self.replay(policy=Fails, on_failure="count")
        self.assertEqual(result.metrics["policy_failures"], 3)  # Then `stay_put` decides.
        self.assertEqual(result.moves, 0)

    def test_what_is_no_policy_is_refused(self):
        class Misnamed(vmart.Policy):
            def on_ticks(self, snapshot, plan):
                pass

        class Bound(vmart.Policy):
            def __init__(self):
                self.lock = threading.Lock()

        class Listed(vmart.Policy):
            parameters = ["uses"]

        class Worded(vmart.Policy):
            parameters = {"uses": "three"}

        class Has(vmart.Policy):
            on_host = 3

        self.assertEqual(self.replay(policy=Has).moves, 0)
        for policy in (Listed, Worded):
            with self.assertRaisesRegex(vmart.InvalidArgument, r"parameters is .*uses.*; it may be a dict of names and numbers"):
                self.replay(policy=policy)
        for policy in (Misnamed, Misnamed()):
            with self.assertRaisesRegex(vmart.InvalidArgument, "Misnamed has on_ticks, which nobody calls"):
                self.replay(policy=policy)
        with self.assertRaisesRegex(vmart.InvalidArgument, "Bound cannot be copied .*; pass the class"):
            self.replay(policy=Bound())
        self.assertEqual(self.replay(policy=Bound).moves, 0)
        for policy in (3, object(), dict):
            with self.assertRaisesRegex(TypeError, "a subclass of vmart.Policy"):
                self.replay(policy=policy)
        with self.assertRaisesRegex(vmart.InvalidArgument, "known are .*two_touch"):
            self.replay(policy="no_such")

    def test_a_library_may_be_named_without_a_folder(self):
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(pathlib.Path(LIBRARY).parent)
        name = pathlib.Path(LIBRARY).name
        expected = self.replay(policy=f"{LIBRARY}:uses=3").moves
        self.assertEqual(self.replay(policy=f"{name}:uses=3").moves, expected)
        self.assertIsNone(self.replay(policy=pathlib.Path(name)).policy_object)

    def test_what_is_no_library_is_told_how_one_is_made(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "mine.so")
            source.write_text("#include <vma/policy.hpp>\n")
            for library in (NO_POLICY, source, pathlib.Path(folder, "none.so")):
                with self.assertRaises(vmart.InvalidArgument) as raised:
                    self.replay(policy=str(library))
                self.assertIn(str(library), str(raised.exception))
                self.assertIn(f"g++ -std=c++20 -shared -fPIC -I{vmart.get_include()} ", str(raised.exception))

    def test_the_line_makes_one(self):
        with self.assertRaises(vmart.InvalidArgument) as raised:
            self.replay(policy=NO_POLICY)
        line = str(raised.exception).partition("g++ ")[2].split()
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(__file__).parents[2] / "unit/scheduling/policy_libraries/good.cpp"
            pathlib.Path(folder, "policy.cc").write_text(source.read_text())
            subprocess.run(["c++", *line], cwd=folder, check=True)
            self.assertEqual(self.replay(policy=f"{folder}/policy.so:uses=3").moves, self.replay(policy=Eager()).moves)

    def test_uses_and_stops_are_as_the_program_has_them(self):
        exact = self.replay(policy="cost_benefit")
        words = {"uses": "launches", "unseen": 0.3, "stop": "suspension"}
        told = self.replay(policy="cost_benefit", **words)
        self.assertEqual({name: told.report["inputs"][name] for name in words}, words)
        self.assertNotEqual(told.report["moves"], exact.report["moves"])
        self.assertGreater(told.report["stall_ns"] / told.report["gates"], 4 * 1.37e6)

    def test_wrong_options_are_refused(self):
        for options, text in (({"machine": "none"}, "no machine file"), ({"hbm": 4}, "at least 1048576 bytes"),
                              ({"router": "none"}, "none"), ({"uses": "all"}, "launches"), ({"stop": "hold"}, "gate, suspension"),
                              ({"unseen": 0.5}, "unseen needs uses launches"), ({"uses": "launches", "unseen": 2}, "between 0 and 1"), ({"pacing": "late"}, "late"),
                              ({"hbm_share": 0}, "hbm_share 0 is not between"),
                              ({"hbm_share": 0.5}, "^vmart.lab.replay: hbm_share cannot be combined with hbm$"), ({"on_failure": "no"}, "raise"),
                              ({"stall_budget": 2}, "^vmart.lab.replay: stall_budget"), ({"calibration": "/none.json"}, "none.json")):
            with self.assertRaisesRegex(vmart.InvalidArgument, text):
                self.replay(**options)
        with self.assertRaisesRegex(TypeError, "did you mean 'hbm'"):
            self.replay(hmb="1GiB")
        with self.assertRaisesRegex(TypeError, "trace is a int"):
            vmart.lab.replay(3)
        with self.assertRaisesRegex(vmart.InvalidArgument, "none.vtrace"):
            vmart.lab.replay("/none.vtrace")

    def test_a_share_of_the_trace_limits_hbm(self):
        used = [self.replay(hbm=None, hbm_share=share, policy="static").metrics["host_share"] for share in (0.25, 0.5, 2)]
        self.assertGreater(used[0], used[1])
        self.assertEqual(used[2], 0)

    def test_control_c_ends_a_replay_in_cpp(self):
        trace = vmart.lab.generate("zipf-drift", gpus=4, length_s=500, objects=200)
        threading.Timer(1, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)).start()
        begin = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            vmart.lab.replay(trace, machine="h200x4", policy="auto", hbm_share=0.5)
        self.assertLess(time.monotonic() - begin, 60)

    def test_threads_replay_at_once(self):
        expected, results = self.replay(policy=Follow).report, {}
        threads = [threading.Thread(target=lambda n=n: results.update({n: self.replay(policy=Follow).report}))
                   for n in range(3)]  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(list(results.values()), [expected] * 3)

    def test_other_threads_run_meanwhile(self):
        trace = vmart.lab.generate("zipf-drift", gpus=4, length_s=20, objects=200)
        done, turns = threading.Event(), []

        def turn():
            while not done.is_set():
                turns.append(time.monotonic())

        thread = threading.Thread(target=turn)
        thread.start()
        begin = time.monotonic()
        self.replay(trace, policy="auto")
        end = time.monotonic()
        done.set()
        thread.join()
        middle = [at for at in turns if begin + (end - begin) / 4 < at < end - (end - begin) / 4]
        self.assertGreater(len(middle), 0)

    def test_it_opens_no_runtime(self):
        self.assertFalse(vmart.is_open())


class Results(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.open = vmart.lab.replay(vmart.lab.generate("zipf-drift", seed=7, **SMALL), policy="auto", hbm="2GiB")
        cls.loop = vmart.lab.replay(vmart.lab.generate("pipeline", iterations=3), policy="auto", hbm="2GiB")

    def test_the_measure_is_that_of_the_trace(self):
        self.assertEqual((self.open.measure, self.loop.measure), ("cost_s", "seconds"))
        self.assertEqual(self.loop.time_s, self.loop.metrics["seconds"])
        self.assertEqual(self.open.time_s, self.open.metrics["cost_s"])

    def test_it_needs_the_file_no_more(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "loop.vtrace")
            vmart.lab.generate("pipeline", path, iterations=2)
            result = vmart.lab.replay(path, policy="static")
            sent = pickle.dumps(result)
            vmart.lab.generate("zipf-drift", path, **SMALL)  # An open loop.
            self.assertEqual((result.measure, result.trace.name), ("seconds", "pipeline"))
        arrived = pickle.loads(sent)
        self.assertEqual((arrived.row, repr(arrived)), (result.row, repr(result)))

    def test_a_trace_is_read_no_more_often_than_needed(self):
        from vmart.lab.errors import extension

        reads = []
        lab = extension("the test")
        with mock.patch.object(lab, "describe", lambda path, real=lab.describe: reads.append(path) or real(path)):
            trace = vmart.lab.Trace(self.loop.trace.path)
            result = vmart.lab.replay(trace, policy="static", machine="h200x4")
            self.assertEqual((result.measure, result.row["trace"], trace.closed_loop, reads), ("seconds", "pipeline", True, []))
            results = vmart.lab.compare([trace], ["static", "stay_put"], machine="h200x4", hbm_share=0.5).results
            self.assertEqual(len(reads), 1)
            share = [each.report["inputs"]["hbm_share"] for each in results.values()]
            self.assertEqual(share, [0.5, 0.5])
        by_program = subprocess.run([PROGRAM, "replay", trace.path, "--machine", "h200x4", "--policy", "static", "--hbm-share", "0.5",
                                     "--json"], capture_output=True, text=True, check=True)  # fmt: skip
        self.assertEqual(json.loads(by_program.stdout)["metrics"], results["pipeline", "static"].metrics)

    def test_reprs_say_what_it_is(self):
        self.assertRegex(repr(self.loop), r"^<vmart.lab.ReplayResult of 'pipeline' on h200x4 with auto: seconds [\d.]+, \d+ moves")
        self.assertRegex(repr(self.loop.trace), r"^<vmart.lab.Trace 'pipeline' \(temporary\): \d+ events in .* closed loop")

    def test_frames(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("needs pandas")
        result = self.open
        self.assertAlmostEqual(result.windows["bytes_moved"].sum(), result.bytes_moved)
        self.assertEqual(result.devices["accesses"].sum(), result.metrics["accesses"])
        self.assertEqual(len(result.resident), len(result.windows))
        self.assertEqual(result.routes["bytes"].sum(), result.bytes_moved)
        self.assertTrue(result.links["use"].between(0, 1).all())
        self.assertEqual(list(self.loop.marks["text"]), ["iteration 1", "iteration 2", "iteration 3"])
        self.assertEqual(self.loop.tags["accesses"].sum(), self.loop.metrics["accesses"])
        self.assertEqual(result.refused["times"].sum(), sum(result.report["moves_refused"].values()))
        rows = pandas.DataFrame([self.open.row, self.loop.row])
        self.assertEqual(list(rows["measure"]), ["cost_s", "seconds"])

    def test_without_pandas_the_extra_is_named(self):
        fresh = vmart.lab.ReplayResult(self.open.trace, self.open.report, None)
        with mock.patch.dict(sys.modules, {"pandas": None}):
            for name in ("windows", "devices", "links", "tags"):
                with self.assertRaisesRegex(vmart.lab.MissingLibrary, r"pip install 'vmart\[lab\]'"):
                    getattr(fresh, name)

    def test_without_the_extension_it_is_named(self):
        with mock.patch.dict(sys.modules, {"vmart._lab": None}):
            with self.assertRaisesRegex(vmart.lab.MissingLibrary, "vmart.lab.replay needs the extension vmart._lab"):
                vmart.lab.replay(self.open.trace)


class Comparisons(unittest.TestCase):
    def test_rows_and_ratios(self):
        traces = {"a": vmart.lab.generate("zipf-drift", seed=1, **SMALL), "b": vmart.lab.generate("pipeline", iterations=2)}
        seen = []
        compared = vmart.lab.compare(traces, ["static", Follow], hbm_share=0.5, on_result=seen.append)
        self.assertEqual([(row["trace"], row["policy"], row["measure"]) for row in compared.rows],
                         [("a", "static", "cost_s"), ("a", "Follow", "cost_s"), ("b", "static", "seconds"),
                          ("b", "Follow", "seconds")])  # fmt: skip
        self.assertEqual(len(seen), 4)
        for row in compared.rows:
            base = compared.results[row["trace"], "static"].time_s
            self.assertEqual(row["ratio"], compared.results[row["trace"], row["policy"]].time_s / base)
        self.assertEqual(repr(compared).splitlines()[0].split()[:3], ["trace", "policy", "measure"])
        self.assertEqual(len(repr(compared).splitlines()), 5)

    def test_texts_may_name_the_classes(self):
        trace = vmart.lab.generate("zipf-drift", seed=1, **SMALL)
        compared = vmart.lab.compare([trace], {"own": Follow(30), "guarded": "guarded+Follow", "class": Follow}, hbm_share=0.5)
        moves = {policy: result.moves for (_, policy), result in compared.results.items()}
        for policy, alone in (("own", Follow(30)), ("guarded", "guarded+Follow"), ("class", Follow)):
            self.assertEqual(moves[policy], vmart.lab.replay(trace, policy=alone, policies=[Follow], hbm_share=0.5).moves, policy)
        self.assertNotEqual(moves["own"], moves["class"])
        other = type("Follow", (Eager,), {})
        compared = vmart.lab.compare([trace], {"one": Follow, "other": other}, hbm_share=0.5)
        self.assertEqual([type(each.policy_object) for each in compared.results.values()], [Follow, other])
        for wrong in (Follow, ["auto"], [Follow(3)], 3):
            with self.assertRaisesRegex(TypeError, "policies is .*; it may be a list of subclasses of vmart.Policy"):
                vmart.lab.replay(trace, policy="auto", policies=wrong)

    def test_a_writer_has_the_name_of_its_trace(self):
        with vmart.lab.TraceWriter(name="by hand") as writer:
            writer.alloc(0, 1, "2MiB")
        self.assertEqual([row["trace"] for row in vmart.lab.compare([writer], ["static"]).rows], ["by hand"])

    def test_two_of_a_name_need_a_dict(self):
        trace = vmart.lab.generate("pipeline", iterations=2)
        with self.assertRaisesRegex(vmart.InvalidArgument, 'two of policies are called "Follow"; pass a dict'):
            vmart.lab.compare([trace], [Follow, Follow(2)])
        for wrong in ([], "static", trace):
            with self.assertRaises((TypeError, vmart.InvalidArgument)):
                vmart.lab.compare([trace], wrong)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
