#!/usr/bin/env python3
"""A trace in a folder of results equals the one that would be made now; otherwise the folder is refused or the
trace is made again, before any cell runs. So it is with policies from shared objects, and with machines whose
HBM depends on the trace: traces_test.py VMART_LAB POLICY_LIBRARY."""

import inspect
import json
import os
import pathlib
import shutil
import sys
import unittest
from unittest import mock

import rig
from vmart.lab.experiments.reader import read_experiment
from vmart.lab.experiments.traces import files_of
from vmart.lab.experiments.worker import Worker
from vmart.lab.importers import FORMATS
from vmart.lab.kinds import is_drawn

LIBRARY = pathlib.Path(sys.argv.pop())
PROGRAM = rig.program_argument()
REQUEST = '{"timestamp":0,"input_length":600,"output_length":2,"hash_ids":[1,2]}\n'
TABLE = "tensor,is_weight,bytes\n1,1,4096\n"
ALLOC = '{"event":"alloc","time_ns":5,"object":1,"bytes":4096}\n'
OPEN = {"parameters": {"closed": 0}}
CONVERTED = {"experiment": "converted", "machines": ["test-2"], "policies": ["stay_put"], "static": False, "traces": [
    {"name": "chat", "convert": "mooncake", "input": "chat.jsonl", **OPEN},
    {"name": "net", "convert": "g10", "input": "net_kernels.jsonl", **OPEN}]}


class Given(rig.Rig):
    program = PROGRAM

    def setUp(self):
        super().setUp()
        self.write(rig.OWN)
        self.trace = self.folder / "own.jsonl"

    def test_what_is_unsound_is_refused_by_file_line_and_reason_before_anything_runs(self):
        for events, says in (
                ("", "own.jsonl: there are no events"),
                (ALLOC + '{"event":"free","time_ns":4,"object":1}\n', "own.jsonl: line 2: "),
                (ALLOC + "nothing\n", "own.jsonl: line 2: "),
                (ALLOC + '{"event":"free","time_ns":6,"object":2}\n',
                 "own.jsonl: event 2: object 2 does not exist; 1 events do not fit")):
            with self.subTest(says):
                self.trace.write_text(events)
                error = self.error_of("own", 2)
                self.assertIn("experiment.json: traces[0]: ", error)
                self.assertIn(says, error)
                self.assertEqual((rig.cells_in(self.results("own")), self.told.ids), ([], []))

    def test_results_of_another_trace_are_refused(self):
        self.trace.write_text(rig.EVENTS)
        self.run_into("own")
        own = self.results("own")
        self.trace.write_text(rig.EVENTS + '{"event":"free","time_ns":2000,"object":1}\n')
        self.assertIn(f"cells/{rig.OWN_CELL}.json: was made from other inputs: trace_sum is ", self.error_of("own"))
        self.assertEqual(own, self.results("own"))


class Converted(rig.Rig):
    """Traces made of one file, and of two, the second of which the format finds by itself."""

    program = PROGRAM

    def setUp(self):
        super().setUp()
        self.write(CONVERTED)
        (self.folder / "chat.jsonl").write_text(REQUEST)
        (self.folder / "net_kernels.jsonl").write_text('{"us":1,"in":[1],"out":[1]}\n')
        (self.folder / "net_tensors.csv").write_text(TABLE)
        self.run_into("results")
        self.before = self.results("results")
        self.made, self.note = (self.folder / "results/traces" / f"chat~s1.{end}" for end in ("vtrace", "json"))

    def refused(self):
        """The error of a run, which changes no file and runs nothing."""
        error = self.error_of("results", 2)
        self.assertEqual(self.before, self.results("results"))
        self.assertEqual(self.told.ids, [])
        return error

    def expect_made_anew(self):
        self.run_into("results", 2)
        self.assertEqual(self.before, self.results("results"))
        self.assertEqual(self.told.ids, [])

    def test_the_note_says_how_it_was_made(self):
        note = json.loads(self.note.read_text())
        self.assertTrue(note["inputs"]["made"].startswith("vmart-lab convert mooncake seed=1 "), note)
        self.assertEqual(list(note["inputs"]), ["made", "version", "input_sums"])
        self.assertEqual(list(note["inputs"]["input_sums"]), ["chat.jsonl"])
        self.assertIn(f"made: {note['inputs']['made']}\n", self.command("trace", self.made).stdout)

    def test_another_input_is_refused_by_its_name(self):
        (self.folder / "chat.jsonl").write_text(REQUEST * 2)
        error = self.refused()
        self.assertIn("experiment.json: traces[0]: ", error)
        self.assertIn('traces/chat~s1.json: was made from other inputs: input_sums is {"chat.jsonl":"', error)
        (self.folder / "chat.jsonl").write_text(REQUEST)
        self.expect_made_anew()

    def test_another_table_that_belongs_to_the_input_is_refused(self):
        (self.folder / "net_tensors.csv").write_text(TABLE.replace("4096", "8192"))
        self.assertIn('traces/net~s1.json: was made from other inputs: input_sums is {"net_kernels.jsonl',
                      self.refused())

    def test_an_input_that_has_gone_is_refused(self):
        (self.folder / "net_tensors.csv").unlink()
        self.assertIn("with NAME_tensors.csv in the same folder", self.refused())

    def test_files_are_all_that_belong_to_the_input(self):
        with Worker(PROGRAM) as worker:
            chat, net = (files_of(trace, worker) for trace in read_experiment(self.file, worker).traces)
        self.assertEqual(chat, [str(self.folder / "chat.jsonl")])
        self.assertEqual(net, [str(self.folder / name) for name in ("net_kernels.jsonl", "net_tensors.csv")])

    def test_a_folder_may_be_the_input(self):
        clients = self.folder / "clients"
        clients.mkdir()
        names = ("chunk-1-trace.csv", "chunk-1-dataset.json")
        for name, text in zip(names, ("0,0.01,1,Gamma,1,1\n", '{"0":{"input_tokens":"{9: 1}","output_tokens":"{1: 1}"}}')):
            (clients / name).write_text(text)
        self.write({**CONVERTED, "traces": [{"name": "all", "convert": "servegen", "input": "clients"}]})
        self.run_into("clients_made")
        note = json.loads((self.folder / "clients_made/traces/all~s1.json").read_text())
        self.assertEqual(sorted(note["inputs"]["input_sums"]), sorted(names))

    def test_python_is_not_started_to_find_files(self):
        log = self.folder / "started"
        python = self.folder / "bin/python3"
        python.parent.mkdir()
        python.write_text(f'#!/bin/sh\necho "$*" >> {log}\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        with mock.patch.dict(os.environ, PATH=f"{python.parent}:{os.environ['PATH']}"):
            self.run_into("again")
        self.assertIn(" events ", log.read_text())
        self.assertNotIn(" files ", log.read_text())

    def test_what_is_not_whole_is_made_anew(self):
        self.note.unlink()
        self.expect_made_anew()
        rig.cut(self.note, self.note.stat().st_size // 2)
        self.expect_made_anew()
        shutil.copy(self.folder / "results/traces/net~s1.vtrace", self.made)
        self.expect_made_anew()  # A whole trace, but another.
        # Nobody knows of what it was made, but the cells are of another.
        (self.folder / "chat.jsonl").write_text(REQUEST * 2)
        self.note.unlink()
        self.assertIn("cells/test-2~chat~stay_put~prefix~s1.json: was made from other inputs: trace_sum",
                      self.error_of("results", 2))

    def test_what_cannot_be_made_says_why(self):
        (self.folder / "chat.jsonl").write_text("nothing\n" * 200)
        shutil.rmtree(self.folder / "results")
        error = self.error_of("results")
        self.assertIn("experiment.json: traces[0]: ", error)
        self.assertIn("chat.jsonl: line 101: ", error)


class Drawn(rig.Rig):
    """Which traces depend on the seed: only these are made and replayed for each."""

    program = PROGRAM
    small = {"phase-change": ("phase_s=1",), "zipf-drift": ("length_s=1",),
             "moe": ("steps=4", "layers=2"), "serving": ("length_s=2",), "pipeline": ("iterations=2",)}

    def events(self, name, seed):
        file = self.folder / f"{name}{seed}.jsonl"
        words = [word for value in self.small.get(name, ()) for word in ("--param", value)]
        done = self.command("generate", name, file, "--seed", seed, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return file.read_text().partition("\n")[2]  # Without the header, which names the seed.

    def test_a_generator_draws_unless_it_is_named(self):
        for name in ("moe", "phase-change", "pipeline", "producer-consumer", "rebalance", "serving", "zipf-drift"):
            differs = self.events(name, 1) != self.events(name, 2)
            self.assertEqual(differs, is_drawn({"generate": name}), name)

    def test_an_importer_that_takes_the_seed_is_named(self):
        for name, form in FORMATS.items():
            takes = "source.seed" in inspect.getsource(form.module())
            self.assertEqual(takes, is_drawn({"convert": name}), name)
        self.assertFalse(is_drawn({"convert": "recording"}) or is_drawn({"file": "x"}))


class OwnPolicies(rig.Rig):
    program = PROGRAM

    def setUp(self):
        super().setUp()
        self.library = self.folder / "own.so"
        shutil.copy(LIBRARY, self.library)
        self.write({**rig.QUICK, "machines": ["test-2"], "seeds": [1], "bounds": True,
                    "policies": [{"policy": "follow@./own.so", "sweep": {"uses": [1, 2]}}, "stay_put"]})

    def count(self, text):
        return sum(text in (data or b"") for data in self.results("results").values())

    def test_one_of_a_shared_object_decides_in_its_cells(self):
        outcome = self.run_into("results", 2)
        self.assertEqual((outcome.finished, outcome.failed), (3, {}))
        self.assertEqual(self.count(b'"policy":"follow@./own.so:uses=2"'), 1, "as the file has it")
        self.assertEqual(self.count(b'"policy_sum":"'), 2, "of the policy's cells, and of no bound")
        self.assertEqual(self.count(b'"moves":0,'), 1, "of stay_put")
        self.assertEqual(self.count(b'"policy_failures":0'), 3)
        self.run_into("results")
        self.assertEqual(self.told.ids, [])

    def test_one_that_has_changed_is_not_mixed_with_its_former_results(self):
        self.run_into("results")
        other = self.folder / "other.so"  # As a rebuild does it.
        other.write_bytes(self.library.read_bytes() + b"changed")
        os.replace(other, self.library)
        self.assertIn("was made from other inputs: policy_sum is ", self.error_of("results"))
        for cell in (self.folder / "results/cells").glob("*follow*"):
            cell.unlink()
        self.assertEqual(self.run_into("results").finished, 3)
        self.assertEqual(len(self.told.ids), 2, "its own cells, and none of stay_put")

    def test_one_that_changes_while_cells_run_fails_them(self):
        def change():
            other = self.folder / "other.so"
            other.write_bytes(self.library.read_bytes() + b"changed")
            os.replace(other, self.library)

        self.told.at_begin = change
        outcome = self.run_into("results", 2)
        self.assertEqual((outcome.finished, len(outcome.failed)), (1, 2))
        for reason in outcome.failed.values():
            self.assertIn("inputs: policy_sum has changed", reason)

    def test_what_one_prints_is_no_answer(self):
        self.write({**rig.QUICK, "machines": ["test-2"], "seeds": [1], "policies": ["follow@./own.so:says=1"]})
        outcome = self.run_into("results")
        self.assertEqual((outcome.finished, outcome.failed), (1, {}))
        done = self.command("run", self.file, "--out", self.folder / "other", "--no-report")
        self.assertEqual((done.returncode, done.stdout), (0, f"1 of 1 cells are finished: {self.folder / 'other'}\n"))
        self.assertIn("a policy may print", done.stderr)

    def test_one_that_is_not_there_is_refused_with_its_place(self):
        self.library.unlink()
        error = self.error_of("results")
        self.assertIn("experiment.json: policies[0]: ", error)
        self.assertIn(str(self.library), error)


class Shares(rig.Rig):
    """HBM as a share of the trace's live bytes: half of 112 MiB; the same in GiB; and the whole machine."""

    program = PROGRAM
    machines = [{"name": "share", "machine": "test-2", "hbm_share": 0.5},
                {"name": "fixed", "machine": "test-2", "hbm_gib": 0.02734375},
                {"name": "whole", "machine": "test-2"}]

    def test_cells_and_bounds_are_those_of_that_capacity(self):
        busy = {**rig.DRIFT, "parameters": {**rig.DRIFT["parameters"], "accesses_s": 4000}}
        self.write({**rig.QUICK, "machines": self.machines, "traces": [busy], "seeds": [1], "bounds": True})
        self.assertTrue(self.run_into("one").all_went_well)
        self.run_into("three", 3)
        results = self.results("one")
        self.assertEqual(results, self.results("three"))
        for policy in ("stay_put", "cost_benefit~margin=1.25"):
            share, fixed, whole = (json.loads(results[f"cells/{name}~drift~{policy}~prefix~s1.json"])
                                   for name in ("share", "fixed", "whole"))
            self.assertEqual(share["cell"]["hbm_bytes"], 28 << 20)
            self.assertEqual(share["report"]["inputs"]["hbm_bytes"], 28 << 20)
            self.assertNotIn("hbm_bytes", fixed["cell"])
            self.assertEqual(share["metrics"], fixed["metrics"])
            self.assertEqual(share["bound"], fixed["bound"])
            self.assertEqual(share["report"]["inputs"]["machine_sum"], fixed["report"]["inputs"]["machine_sum"])
            self.assertGreater(share["metrics"]["host_share"], 0.1, "it is too small for the trace")
            self.assertGreater(share["bound"]["lower_bound_s"], whole["bound"]["lower_bound_s"])

    def test_it_follows_the_trace_and_what_fits_nowhere_is_lost_and_counted(self):
        self.write({"experiment": "files", "policies": ["static"], "bounds": True, "chunk_mib": 1,
                    "machines": [{**self.machines[0], "host_gib": 0.015625}],
                    "traces": [{"name": name, "file": f"{name}.jsonl"} for name in ("small", "large")]})
        for name, mib in (("small", 1), ("large", 4)):
            events = [{"event": event, "time_ns": time, "object": number, "bytes": mib << 20}
                      for event, time in (("alloc", 0), ("access", 1000)) for number in range(1, 17)]
            (self.folder / f"{name}.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        self.assertTrue(self.run_into("results", 2).all_went_well)
        small, large = (json.loads(self.results("results")[f"cells/share~{name}~static~prefix~s1.json"])
                        for name in ("small", "large"))
        self.assertEqual((small["cell"]["hbm_bytes"], large["cell"]["hbm_bytes"]), (4 << 20, 16 << 20))
        self.assertEqual(small["metrics"]["accesses_lost"], 0)
        self.assertGreater(large["metrics"]["accesses_lost"], 0)
        self.assertIsNone(large["regret"])


if __name__ == "__main__":
    unittest.main()
