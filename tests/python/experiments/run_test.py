#!/usr/bin/env python3
"""Experiments give the same bytes with any number of workers and after any interruption, and what does not fit
is refused before anything runs: run_test.py VMART_LAB."""

import fcntl
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

import rig

PROGRAM = rig.program_argument()
WAIT_S = 60
# In the order of the file, which is that of earlier versions.
BOUND_INPUTS = ["id", "machine", "trace", "version", "router", "seed", "pacing", "chunk_bytes", "admission",
                "admission_memory", "trace_sum", "machine_sum"]


class Runs(rig.Rig):
    program = PROGRAM

    def setUp(self):
        super().setUp()
        self.write(rig.QUICK)

    def test_any_number_of_workers_gives_the_same_bytes(self):
        outcome = self.run_into("one")
        self.assertEqual((outcome.cells, outcome.finished, outcome.all_went_well), (8, 8, True))
        self.run_into("three", 3)
        self.run_into("many", 20)
        one = self.results("one")
        self.assertEqual(len(rig.cells_in(one)), 8)
        self.assertIn("traces/drift~s2.vtrace", one)
        self.assertNotIn("unfinished", one)
        self.assertIn(f"\n{rig.FIRST},test-2,drift,synthetic,stay_put,".encode(), one["results.csv"])
        self.assertIn(b"\ntest-2,drift,stay_put,prefix,2,", one["summary.csv"])
        self.assertEqual(one, self.results("three"))
        self.assertEqual(one, self.results("many"))

    def test_what_policies_are_told_and_how_they_stop_is_part_of_a_cell(self):
        drift = {**rig.DRIFT, "parameters": {**rig.DRIFT["parameters"], "length_s": 2, "accesses_s": 2000}}
        quick = {**rig.QUICK, "traces": [drift]}
        self.write(quick)
        self.run_into("exact")
        given = {"uses": "base_pointers", "unseen": 0.5, "use_interval_ms": 50, "stop": "suspension", "stall_budget_ms": 20,
                 "pace_guard": False}
        self.write({**quick, **given})
        self.assertTrue(self.run_into("told").all_went_well)
        name = "full~drift~cost_benefit~margin=1.25~prefix~s1"
        exact, told = (json.loads((self.folder / folder / "cells" / f"{name}.json").read_text()) for folder in ("exact", "told"))
        self.assertEqual({key: told["cell"][key] for key in given}, given)
        self.assertFalse(set(given) & set(exact["cell"]))
        self.assertNotEqual(told["report"]["inputs"]["machine_sum"], exact["report"]["inputs"]["machine_sum"])
        self.assertNotEqual(told["report"]["moves"], exact["report"]["moves"])

    def test_the_program_leaves_what_the_package_does(self):
        self.run_into("package")
        done = self.command("run", self.file, "--out", self.folder / "program", "--no-report")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, f"8 of 8 cells are finished: {self.folder / 'program'}\n")
        self.assertEqual(self.results("package"), self.results("program"))

    def test_only_what_is_not_finished_is_done(self):
        self.run_into("whole", 2)
        whole = self.results("whole")
        self.run_into("whole", 2)
        self.assertEqual((self.told.ids, self.told.began), ([], (8, 8)))
        (self.folder / "whole/cells" / f"{rig.FIRST}.json").unlink()
        rig.cut(self.folder / "whole/cells/full~drift~stay_put~prefix~s2.json", 2000)
        (self.folder / "whole/traces/drift~s1.vtrace").unlink()
        rig.cut(self.folder / "whole/traces/drift~s2.vtrace", 1000)
        (self.folder / "whole/results.csv").unlink()
        self.run_into("whole", 3)
        self.assertEqual(len(self.told.ids), 2)
        self.assertEqual(whole, self.results("whole"))

    def test_a_cell_that_is_cut_anywhere_is_done_anew(self):
        self.run_into("whole", 2)
        whole = self.results("whole")
        file = self.folder / "whole/cells" / f"{rig.FIRST}.json"
        size = file.stat().st_size
        for left in (0, 1, size - 2, size - 1):
            with self.subTest(left):
                rig.cut(file, left)
                self.run_into("whole")
                self.assertEqual(self.told.ids, [rig.FIRST])
                self.assertEqual(whole, self.results("whole"))

    def test_cells_one_by_one_are_those_of_a_whole_run(self):
        self.run_into("whole")
        whole, ids = self.results("whole"), self.told.ids
        self.run_into("single", only=[rig.FIRST])
        single = self.results("single")
        self.assertEqual(rig.cells_in(single), [f"cells/{rig.FIRST}.json"])
        self.assertNotIn("results.csv", single)
        self.assertNotIn("traces/drift~s2.vtrace", single)
        for identity in ids:
            self.run_into("single", only=[identity])
        self.run_into("single")
        self.assertEqual(self.told.ids, [])
        self.assertEqual(whole, self.results("single"))
        self.assertIn('has no cell "none"; --list prints all cells', self.error_of("other", only=["none"]))
        self.assertFalse((self.folder / "other").exists())
        done = self.command("run", self.file, "--out", self.folder / "program", "--only", ids[1], f"--only={ids[2]}")
        self.assertEqual((done.returncode, len(rig.cells_in(self.results("program")))), (0, 2))

    def test_a_folder_that_is_not_its_own_is_refused(self):
        self.run_into("whole")
        whole = self.results("whole")
        self.write({**rig.QUICK, "seeds": [2, 1]})
        self.assertIn("experiment.json: is of an experiment other than", self.error_of("whole"))
        self.assertEqual(whole, self.results("whole"))
        (self.folder / "home").mkdir()
        (self.folder / "home/letter.txt").write_text("dear")
        self.assertIn("home: contains letter.txt but no experiment.json", self.error_of("home"))
        self.assertEqual(list(self.results("home")), ["letter.txt"])
        self.assertIn("letter.txt: ", self.error_of("home/letter.txt"))

    def test_results_of_another_version_are_refused(self):
        self.run_into("whole", only=[rig.FIRST])
        file = self.folder / "whole/cells" / f"{rig.FIRST}.json"
        file.write_text(file.read_text().replace('"version":"', '"version":"0.0.0 of '))
        self.assertIn(f'{file}: was made from other inputs: version is "0.0.0 of ',
                      self.error_of("whole", only=[rig.FIRST]))

    def test_results_with_other_metrics_are_refused(self):
        self.run_into("whole")
        file = self.folder / "whole/cells" / f"{rig.FIRST}.json"
        file.write_text(file.read_text().replace('"metrics":{', '"metrics":{"colour":1,'))
        self.assertIn("has other metrics than the cells before it", self.error_of("whole"))

    def test_of_several_experiments_that_begin_at_once_one_gets_the_folder(self):
        files = []
        for index in range(4):  # Each of two experiments starts twice.
            files.append(self.folder / f"{index}.json")
            files[-1].write_text(json.dumps({**rig.QUICK, "about": str(index // 2)}))
        folder = self.folder / "both"
        folder.mkdir()
        held = os.open(folder, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
        runs = [subprocess.Popen([PROGRAM, "run", file, "--out", folder, "--no-report"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for file in files]
        # All have looked into it, and wait for the lock: "7: -> FLOCK  ADVISORY  READ 1234 fd:01:5678 0 EOF".
        waiting = re.compile(rf"-> FLOCK .*:{os.fstat(held).st_ino} ")
        end = time.monotonic() + WAIT_S
        while len(waiting.findall(pathlib.Path("/proc/locks").read_text())) < len(runs):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        self.assertEqual(list(folder.iterdir()), [])
        os.close(held)
        errors = [run.communicate()[1].decode() for run in runs]
        kept = (self.folder / "both/experiment.json").read_bytes()
        for file, run, error in zip(files, runs, errors):
            self.assertEqual(run.returncode == 0, file.read_bytes() == kept, error)
            if run.returncode != 0:
                self.assertIn("is of an experiment other than", error)
        self.assertNotIn("unfinished", self.results("both"))


class Fails(rig.Rig):
    program = PROGRAM

    def test_a_cell_that_fails_does_not_end_the_others(self):
        self.write({**rig.OWN, "chunk_mib": 0.001, "traces": [{"name": "bad", "file": "bad.jsonl"},
                                                              {"name": "good", "file": "good.jsonl"}]})
        for name, size in (("bad", 1 << 32), ("good", 4096)):
            event = {"event": "alloc", "time_ns": 0, "object": 1, "bytes": size}
            (self.folder / f"{name}.jsonl").write_text(json.dumps(event) + "\n")
        outcome = self.run_into("results")
        self.assertEqual((outcome.finished, outcome.stopped), (1, False))
        self.assertEqual(list(outcome.failed), ["test-2~bad~stay_put~prefix~s1"])
        self.assertIn("chunks", outcome.failed["test-2~bad~stay_put~prefix~s1"])
        results = self.results("results")
        self.assertEqual(rig.cells_in(results), ["cells/test-2~good~stay_put~prefix~s1.json"])
        self.assertNotIn(b"bad", results["results.csv"])
        done = self.command("run", self.file, "--out", self.folder / "results", "--no-report")
        self.assertEqual(done.returncode, 1)
        self.assertIn("vmart-lab: test-2~bad~stay_put~prefix~s1 failed: ", done.stderr)
        self.assertIn("1 of 2 cells are finished, 1 failed: ", done.stdout)

    def test_a_worker_that_dies_fails_its_cell_and_the_next_run_does_it(self):
        self.write(rig.QUICK)
        self.run_into("whole")
        program, log = rig.stand_in(self.folder / "dies", PROGRAM, f'"id": "{rig.FIRST}"', rig.DIES)
        for jobs in (1, 3):
            outcome = self.run_into("results", jobs, program=program)
            self.assertEqual((outcome.finished, outcome.stopped), (7, False))
            self.assertEqual(outcome.failed, {rig.FIRST: "vmart-lab was ended by SIGKILL"})
        self.assertEqual(log.read_text(), "asked\nasked\n")
        self.assertNotIn("unfinished", self.results("results"))
        self.run_into("results")
        self.assertEqual(self.told.ids, [rig.FIRST])
        self.assertEqual(self.results("whole"), self.results("results"))

    def test_a_worker_that_dies_while_the_file_is_read_ends_the_run(self):
        self.write(rig.QUICK)
        program, _ = rig.stand_in(self.folder / "dies", PROGRAM, '"do": "policy"', rig.DIES)
        self.assertIn("policies[0]: vmart-lab was ended by SIGKILL", self.error_of("results", program=program))
        self.assertIn("none: No such file", self.error_of("results", program="/none"))

    def test_a_disk_that_is_full_is_an_error_and_leaves_nothing_torn(self):
        self.write(rig.QUICK)
        self.run_into("whole")
        self.run_into("full", only=[rig.FIRST, "test-2~drift~stay_put~prefix~s2"])
        # A limit of files' sizes fails the same call as a full disk does.
        code = ("import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); import rig; "
                "from vmart.lab.experiments.run import run_experiment; told = rig.Told(); "
                "told.at_begin = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)); "
                "run_experiment(*sys.argv[1:3], 2, program=sys.argv[3], watcher=told)")
        done = subprocess.run([sys.executable, "-c", code, self.file, self.folder / "full", PROGRAM],
                              capture_output=True, text=True, check=False, cwd=os.path.dirname(__file__))
        self.assertEqual(done.returncode, 1)
        self.assertIn("File too large", done.stderr)
        self.assertIn("ExperimentError: ", done.stderr)
        self.assertEqual(len(rig.cells_in(self.results("full"))), 2)
        self.run_into("full", 2)
        self.assertEqual(self.results("whole"), self.results("full"))


class Bounds(rig.Rig):
    program = PROGRAM

    def test_each_is_found_once_and_no_cell_is_under_it(self):
        self.write({**rig.QUICK, "bounds": True})
        self.run_into("one")
        one = self.results("one")
        self.assertEqual(len(rig.cells_in(one)), 8)
        self.assertEqual(len([name for name in one if name.startswith("bounds/")]), 4)
        for name in rig.cells_in(one):
            cell = json.loads(one[name])
            lost = cell["metrics"]["accesses_lost"]
            self.assertEqual(cell["regret"] is None, lost > 0, name)
            if lost == 0:
                self.assertGreaterEqual(cell["regret"], -1e-9)
            names = cell["cell"]
            bound = json.loads(one[f"bounds/{names['machine']}~drift~prefix~s{names['seed']}.json"])
            self.assertEqual(cell["bound"], bound["bound"])
            self.assertEqual(list(bound["inputs"]), BOUND_INPUTS)
        self.run_into("three", 3)
        self.assertEqual(one, self.results("three"))
        (self.folder / "three/bounds/test-2~drift~prefix~s1.json").unlink()
        rig.cut(self.folder / "three/bounds/test-2~drift~prefix~s2.json", 20)
        for seed in (1, 2):
            (self.folder / f"three/cells/test-2~drift~stay_put~prefix~s{seed}.json").unlink()
        self.run_into("three", 2)
        self.assertEqual(one, self.results("three"))

    def test_where_the_replay_chooses_devices_there_is_a_reason_instead(self):
        self.write({**rig.OWN, "bounds": True, "routers": ["hash", "least_loaded"]})
        (self.folder / "own.jsonl").write_text(rig.EVENTS)
        self.assertEqual(self.run_into("results", 2).finished, 2)
        results = self.results("results")
        self.assertIn(b'"lower_bound_s"', results["cells/test-2~own~stay_put~hash~s1.json"])
        self.assertIn(b'"bound":null,"regret":null', results["cells/test-2~own~stay_put~least_loaded~s1.json"])
        self.assertIn(b'"bound":null,"reason":"', results["bounds/test-2~own~least_loaded~s1.json"])

    def failed_bound(self, outcome):
        """The reason. The bound and its cell were skipped, so that the next run computes both."""
        self.assertEqual((outcome.without_bound, outcome.finished, outcome.failed, outcome.stopped), (1, 0, {}, False))
        self.assertEqual(rig.cells_in(self.results("results")), [])
        self.assertNotIn("bounds/test-2~own~prefix~s1.json", self.results("results"))
        return outcome.failed_bounds["test-2~own~prefix~s1"]

    def test_one_that_fails_for_a_passing_reason_is_tried_again(self):
        self.write({**rig.OWN, "bounds": True})
        trace, away = self.folder / "own.jsonl", self.folder / "away.jsonl"
        trace.write_text(rig.EVENTS)
        self.told.at_stage = lambda what: trace.rename(away) if "bounds" in what else None
        self.assertIn("own.jsonl: ", self.failed_bound(self.run_into("results", 2)))
        self.told.at_stage = lambda _: None
        away.rename(trace)
        program, _ = rig.stand_in(self.folder / "dies", PROGRAM, '"do": "bound"', rig.DIES)
        self.assertIn("SIGKILL", self.failed_bound(self.run_into("results", 2, program=program)))
        done = self.command("run", self.file, "--out", self.folder / "results", "--no-report")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(b'"lower_bound_s"', self.results("results")[f"cells/{rig.OWN_CELL}.json"])

    def test_the_program_says_which_failed_and_what_waits_for_it(self):
        self.write({**rig.OWN, "bounds": True})
        (self.folder / "own.jsonl").write_text(rig.EVENTS)
        program, _ = rig.stand_in(self.folder / "refuses", PROGRAM, '"do": "bound"', rig.REFUSES)
        done = subprocess.run([sys.executable, "-m", "vmart.lab", "run", self.file, "--out", self.folder / "results",
                               "--program", program], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("vmart-lab: the bound test-2~own~prefix~s1 failed: no luck today\n", done.stderr)
        self.assertIn("0 of 1 cells are finished, 1 are waiting for a bound: ", done.stdout)


if __name__ == "__main__":
    unittest.main()
