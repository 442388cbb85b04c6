#!/usr/bin/env python3
"""An experiment's file expands to the right cells, and errors in it are refused with clear messages:
reader_test.py VMART_LAB."""

import json
import pathlib
import unittest

import rig
from vmart.lab import ExperimentError
from vmart.lab.experiments.experiment import cells_of, file_name_of
from vmart.lab.experiments.reader import read_experiment
from vmart.lab.experiments.worker import Worker

PROGRAM = rig.program_argument()
SAMPLE = """{
  "experiment": "sample",
  "machines": ["test-2",
    {"name": "a small one", "machine": "test-2", "hbm_gib": 0.5, "host_gib": 2}],
  "traces": [
    {"name": "drift", "generate": "zipf-drift", "parameters": {"objects": 40, "skew": 0.5}},
    {"name": "prompts", "convert": "mooncake", "input": "requests.jsonl"},
    {"name": "own", "file": "./own.vtrace"}
  ],
  "policies": ["stay_put",
    {"policy": "cost_benefit", "sweep": {"margin": [1, 1.25], "horizon": ["1s", "2s"]}}],
  "routers": ["hash", "least_loaded"],
  "pacing": "at_once",
  "chunk_mib": 2,
  "seeds": [3, 4]
}"""
PACING = '"pacing": "at_once"'
# A piece of the sample, what stands in its place, and what the error says.
WRONG = (
    ('"experiment": "sample",', "", "experiment: is missing"),
    ('"pacing"', '"passing"', 'passing: is not a known key of this object; did you mean "pacing"?'),
    ('"experiment"', '"experimant"', "experimant: is not a known key of this object; did you mean"),
    ('"chunk_mib"', '"colour"', "colour: is not a known key of this object; expected one of exp"),
    (PACING, '"seeds": [1]', "line 15: seeds: appears twice"),
    ('"at_once"', '"fast"', "pacing: replay: invalid_argument: "),
    (PACING, '"admission": "fifo"', "admission: replay: invalid_argument: 'fifo' is not an admission; known are"),
    (PACING, '"slo_step_ms": -1', "slo_step_ms: -1 is not betw"),
    ('["test-2",', '["h900",', "machines[0]: load_machine: invalid_argument: no mach"),
    ('["test-2",', '[7,', "machines[0]: is not an object"),
    ('"hbm_gib": 0.5', '"hbm_gib": 0', "machines[1].hbm_gib: 0 is not between 0.0009765625 and 67108864"),
    ('"hbm_gib": 0.5', '"hbm_gib": 1, "hbm_share": 1', "machines[1].hbm_share: cannot be combined with hbm_gib"),
    ('"hbm_gib": 0.5', '"hbm_share": 65', "machines[1].hbm_share: 65 is not between 0.001 and 64"),
    ('"machine": "test-2"', '"machine": "none/x.json"', "machines[1].machine: load_machine: "),
    ("zipf-drift", "zipf", 'traces[0].generate: traces: invalid_argument: there is no "zipf"; known are '),
    ('"objects": 40', '"objecs": 40', 'traces[0].generate: TraceValues: invalid_argument: "objecs" is not'),
    ('"objects": 40', '"objects": "40"', "traces[0].parameters.objects: is not a number"),
    ('"mooncake"', '"cake"', "traces[1].convert: "),
    ("requests.jsonl", "none.jsonl", "none.jsonl is not a file"),
    ('"file": "./own.vtrace"', '"fil": "./own.vtrace"', 'traces[2].fil: is not a known key of this object; did you'),
    (', "file": "./own.vtrace"', "", "traces[2]: must have one of generate, convert, file"),
    ('"file": "./own.vtrace"', '"file": "./own.vtrace", "parameters": {}',
     "traces[2].parameters: is not a known key of this object"),
    ('"name": "own"', '"name": "drift"', 'traces[2]: "drift" was already used'),
    ('"name": "own"', '"name": "own", "kind": "fake"', "traces[2].kind: is none of real, synthetic, held_out"),
    ('["stay_put",', '["best",', "policies[0]: policy: invalid_argument: there is "),
    ('["stay_put",', '["stay_put", "stay_put",', 'policies[1]: "stay_put" was already used'),
    ("[1, 1.25]", "[1, 0.001]", "policies[1]: "),
    ("[1, 1.25]", "[]", "policies[1].sweep.margin: is not a list of values"),
    ("[1, 1.25]", "[[1]]", "policies[1].sweep.margin: contains something other than a number"),
    ('"margin"', '"marge"', "policies[1]: "),
    ('"least_loaded"', '"nearest"', "routers[1]: "),
    ('"hash", ', "{}, ", "routers[0]: must be a string"),
    ('"chunk_mib": 2', '"chunk_mib": -2', "chunk_mib: -2 is not between"),
    (PACING, '"bounds": 1', "bounds: must be true or false"),
    ("[3, 4]", "[3, 3]", 'seeds[1]: "3" was already used above'),
    ("[3, 4]", "[3, 0.5]", "seeds[1]: is not a whole number from 0 to 2^53"),
    ("[3, 4]", "[]", "seeds: is empty"),
    ("[3, 4]", "[3 4]", "line 15: "),
)


class Reads(rig.Rig):
    program = PROGRAM

    def setUp(self):
        super().setUp()
        self.file = self.folder / "sample.json"
        for name in ("own.vtrace", "requests.jsonl"):
            (self.folder / name).touch()  # Only its existence is checked.
        self.worker = Worker(PROGRAM)
        self.addCleanup(self.worker.close)

    def read(self, *replaced):
        """The sample, with pieces of it replaced."""
        text = SAMPLE
        for piece, other in replaced:
            self.assertIn(piece, text)
            text = text.replace(piece, other, 1)
        self.write(text)
        return read_experiment(self.file, self.worker)

    def error_in(self, *replaced):
        with self.assertRaises(ExperimentError) as caught:
            self.read(*replaced)
        return str(caught.exception)

    def test_all_that_the_file_says(self):
        experiment = self.read()
        self.assertEqual(experiment.text, SAMPLE.encode())
        self.assertEqual([machine.name for machine in experiment.machines], ["test-2", "a small one"])
        self.assertEqual(experiment.machines[1].described, {"file": "test-2", "hbm_gib": 0.5, "host_gib": 2})
        drift, prompts, own = experiment.traces
        self.assertEqual(drift.values, ("objects=40", "skew=0.5"))
        self.assertEqual(prompts.input, str(self.folder / "requests.jsonl"))
        self.assertEqual(own.input, str(self.folder / "own.vtrace"))
        self.assertEqual([trace.kind for trace in experiment.traces], ["synthetic", "real", "real"])
        self.assertEqual(own.where, f"{self.file}: traces[2]")
        swept = [f"cost_benefit:margin={margin},horizon={horizon}"
                 for margin in ("1", "1.25") for horizon in ("1s", "2s")]
        self.assertEqual(experiment.policies, ["static", "stay_put", *swept])
        self.assertEqual(experiment.routers, ["hash", "least_loaded"])
        self.assertEqual((experiment.pacing, experiment.chunk_bytes), ("at_once", 2 << 20))
        self.assertEqual((experiment.seeds, experiment.bounds), ([3, 4], False))

    def test_what_is_left_out_has_a_default(self):
        self.write({**rig.QUICK, "seeds": [0]})
        experiment = read_experiment(self.file, self.worker)
        self.assertEqual((experiment.routers, experiment.pacing), (["prefix"], "timed"))
        self.assertEqual((experiment.admission, experiment.admission_memory), ("preempt", "all"))
        self.assertEqual((experiment.limits, experiment.chunk_bytes), ({}, 32 << 20))
        self.write({key: value for key, value in rig.QUICK.items() if key != "seeds"})
        self.assertEqual(read_experiment(self.file, self.worker).seeds, [1])

    def test_static_is_beside_all_unless_the_file_says_so(self):
        for static, policies, read in (({}, ["auto"], ["static", "auto"]), ({}, ["auto", "static"], ["auto", "static"]),
                                       ({"static": False}, ["auto"], ["auto"]),
                                       ({"static": False}, ["static"], ["static"])):
            base = {key: value for key, value in rig.QUICK.items() if key != "static"}
            self.write({**base, **static, "policies": policies})
            self.assertEqual(read_experiment(self.file, self.worker).policies, read)
        self.assertIn("static: must be true or false", self.error_in((PACING, '"static": 0')))

    def test_how_requests_are_admitted(self):
        experiment = self.read((PACING, '"admission": "queue", "admission_memory": "hbm", "slo_first_ms": 500'))
        self.assertEqual((experiment.admission, experiment.admission_memory), ("queue", "hbm"))
        self.assertEqual(experiment.limits, {"slo_first_ms": 500})

    def test_what_replays_are_told(self):
        given = {"uses": "launches", "unseen": 0.25, "use_interval_ms": 50, "stop": "suspension", "stall_budget_ms": 60,
                 "pace_guard": False}
        self.assertEqual(self.read((PACING, json.dumps(given)[1:-1])).options, given)
        self.assertEqual(self.read().options, {})
        for wrong, says in (('"uses": "launch"', "uses: replay: invalid_argument: 'launch' is not how uses are told; known are exact, "),
                            ('"unseen": 0.5', 'unseen: needs "uses" launches or base_pointers'),
                            ('"uses": "launches", "unseen": 2', "unseen: 2 is not between 0 and 1"),
                            ('"use_interval_ms": 0', "use_interval_ms: 0 is not between 0.01 and 86400000"),
                            ('"stop": "hold"', "stop: replay: invalid_argument: 'hold' is not a kind of stop; known are gate, suspension"),
                            ('"pace_guard": 1', "pace_guard: must be true or false")):
            self.assertIn(says, self.error_in((PACING, wrong)))

    def test_what_a_trace_is(self):
        for kind in ("real", "synthetic", "held_out"):
            experiment = self.read(('"name": "own"', f'"name": "own", "kind": "{kind}"'))
            self.assertEqual(experiment.traces[2].kind, kind)

    def test_errors_name_the_path_and_the_reason(self):
        for piece, other, says in WRONG:
            with self.subTest(other):
                error = self.error_in((piece, other))
                self.assertTrue(error.startswith(f"{self.file}: "), error)
                self.assertIn(says, error)
        with self.assertRaisesRegex(ExperimentError, "none.json: cannot be read"):
            read_experiment("none.json", self.worker)
        self.file.write_bytes(b'{"experiment": "\xff"}')
        with self.assertRaisesRegex(ExperimentError, "is not UTF-8 at byte 16"):
            read_experiment(self.file, self.worker)

    def test_a_misspelt_key_is_reported_once_and_is_not_missing(self):
        error = self.error_in(('"machines"', '"machinse"'))
        self.assertIn('machinse: is not a known key of this object; did you mean "machines"?', error)
        self.assertNotIn("is missing", error)
        self.assertNotIn("problems", error)

    def test_all_problems_are_reported_at_once(self):
        error = self.error_in(('"experiment": "sample",', ""), ('"test-2",', '"h900",'),
                              ('0.5, "host_gib"', '0, "hots_gib"'), ("zipf-drift", "zipf"),
                              ("requests.jsonl", "none.jsonl"), ("stay_put", "best"), ("least_loaded", "nearest"),
                              ("at_once", "fast"), ("[3, 4]", '[3, -4, "x"]'))
        for part in ("11 problems\n", "experiment: is missing", "machines[0]: load_machine", "machines[1].hbm_gib: 0 is",
                     'machines[1].hots_gib: is not a known key of this object; did you mean "host_gib"?',
                     "traces[0].generate: ", "traces[1].input: ", "policies[0]: ", "routers[1]: ", "pacing: ",
                     "seeds[1]: is not a whole", "seeds[2]: is not a whole"):
            self.assertIn(part, error)

    def test_a_sweep_has_every_combination_and_no_more_than_that(self):
        many = json.dumps(list(range(101)))
        error = self.error_in(("[1, 1.25]", many), ('["1s", "2s"]', many))
        self.assertIn("policies[1].sweep.horizon: makes too many policies", error)

    def test_cells_are_in_the_order_of_the_file_each_with_an_id_of_its_own(self):
        ids = [cell.id for cell in cells_of(self.read())]
        # A trace from a file has a single seed, and so has the conversion, which draws nothing.
        self.assertEqual(len(ids), 2 * 6 * 2 * (2 + 1 + 1))
        self.assertEqual(ids[:3], ["test-2~drift~static~hash~s3", "test-2~drift~static~hash~s4",
                                   "test-2~drift~static~least_loaded~s3"])
        self.assertEqual(ids[8], "test-2~drift~cost_benefit~margin=1,horizon=1s~hash~s3")
        self.assertTrue(ids[48].startswith("a_small_one~drift~static~hash~s3~"), ids[48])
        self.assertEqual(len(set(ids)), len(ids))

    def test_too_many_cells_are_refused(self):
        experiment = self.read()._replace(policies=["stay_put"] * 200_000)
        with self.assertRaisesRegex(ExperimentError, "more than 1000000 cells"):
            cells_of(experiment)

    def test_the_program_lists_cells_and_files_and_refuses_as_the_package_does(self):
        self.read()
        listed = self.command("run", self.file, "--list")
        self.assertEqual(listed.stdout.splitlines(), [cell.id for cell in cells_of(self.read())])
        files = self.command("run", self.file, "--list-files")
        self.assertEqual(files.stdout.splitlines(), [f"prompts\t{self.folder / 'requests.jsonl'}",
                                                     f"own\t{self.folder / 'own.vtrace'}"])
        error = self.error_in(("[3, 4]", "[]"))
        for option in ("--list", "--list-files", f"--out={self.folder / 'out'}"):
            refused = self.command("run", self.file, option)
            self.assertEqual((refused.returncode, refused.stderr), (1, f"vmart-lab: {error}\n"))
        self.assertFalse((self.folder / "out").exists())


class FileNames(unittest.TestCase):
    def test_a_plain_name_is_kept(self):
        self.assertEqual(file_name_of(["a", "b=1.5,c", "s1"]), "a~b=1.5,c~s1")

    def test_all_are_file_names_and_differ_for_other_parts(self):
        parts = (["a", "b"], ["a~b"], ["a b"], ["a_b"], ["a/b"], ["../b"], [".._b"], ["-a"], ["_a"], ["x" * 300],
                 ["x" * 301], ["é"], ["\n\n"], ["a", "", "b"])
        names = [file_name_of(each) for each in parts]
        self.assertEqual(len(set(names)), len(parts))
        for name in names:
            self.assertLessEqual(len(name), 230)
            self.assertEqual(pathlib.Path(name).name, name)
            self.assertNotIn(name[0], ".-")

    def test_the_checksum_is_that_of_earlier_versions(self):
        self.assertEqual(file_name_of(["a small one", "s1"]), "a_small_one~s1~48f35387957fb685")


if __name__ == "__main__":
    unittest.main()
