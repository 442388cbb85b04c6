#!/usr/bin/env python3
"""Goal: the table of what was tested where is made from records, and from nothing else. Method: the committed page and
header are compared with the records; then records with made-up machines and results.
"""

import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import support  # noqa: E402

CONTEXT = {"command": "bench/run.py --live --gpus 2", "driver": "cuda", "driver_version": "600.1", "gpus": ["NVIDIA B200"] * 2,
           "commit": "0123456789ab", "system": "Linux-6.1-aarch64-with-glibc2.39"}


def program(name, verdict="", **others):
    return {"name": name, "verdict": verdict, "gpu": "2 x NVIDIA B200", "commit": "abc", **others}


class Support(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def records(self):
        return support.read_records(self.folder)

    def rows(self, **documents):
        for name, document in documents.items():
            (self.folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
        return support.rows_of_all(self.records())

    def test_page_and_header_are_what_the_records_say(self):
        rows = support.rows_of_all(support.read_records(support.SAMPLES))
        self.assertGreaterEqual(len(rows), 20)
        for path, text in support.written().items():
            self.assertEqual(path.read_text(encoding="utf-8"), text, f"run docs/support.py: {path}")

    def test_frameworks_have_a_row_each_and_count_as_they_ended(self):
        torch, jax = ({"version": version, "driver_version": "600.1"} for version in ("3.0", "1.0"))
        programs = [program("torch.a", **torch), program("torch.b", "moving: differs", **torch), program("torch.c", "bare: exit 1", **torch),
                    program("torch.d", "nothing moved", **torch), program("jax.a", **jax), program("case.refused")]
        rows = self.rows(run={"versions": {}, "programs": programs})
        self.assertEqual([(row.what, row.version, row.good, row.runs) for row in rows],
                         [("JAX under `vmart run`", "1.0", 1, 1), ("PyTorch under `vmart run`", "3.0", 2, 3)])
        self.assertEqual((rows[0].machine.driver, rows[0].machine.gpu, rows[0].machine.gpus), ("600.1", "NVIDIA B200", 2))
        self.assertIn("2 of 3 programs as without vmart; nothing moved: 1", support.cells(rows[1], {}))

    def test_what_a_program_says_of_itself_counts_before_the_file(self):
        own = program("torch.a", version="2.0", driver_version="599.1", cuda_version="13.9")
        later = program("torch.b", version="2.1", driver_version="599.1")
        programs = [own, later, program("torch.c"), program("jax.a")]
        rows = self.rows(run={"versions": {"torch": "3.0", "driver": "600.1", "nvcc": "12.0"}, "programs": programs})
        self.assertEqual([(row.version, row.machine.driver) for row in rows],
                         [("2.0", "599.1"), ("2.1", "599.1"), ("not recorded", "600.1"), ("3.0 (of all runs in the record)", "600.1")])
        cuda = support.toolkits(self.records())
        self.assertEqual([support.cells(row, cuda)[1] for row in rows], ["13.9", "13.9", "not recorded", "not recorded"])
        self.assertIn('{"599.1", "NVIDIA B200", 2, 2, "PyTorch 2.0; PyTorch 2.1"},', support.lines_of_header(rows))
        self.assertIn('{"600.1", "NVIDIA B200", 2, 2, "PyTorch 3.0"},', support.lines_of_header(rows))

    def test_records_of_one_machine_are_one_row(self):
        rows = self.rows(one={"context": CONTEXT, "results": [1, 2], "failed": ["x"]},
                         two={"context": {**CONTEXT, "commit": "fedcba987654"}, "results": [3]},
                         late={"context": CONTEXT, "results": [], "failed": [{"reason": "left out for want of time"}]})
        self.assertEqual(len(rows), 1)
        self.assertEqual((rows[0].good, rows[0].runs, rows[0].commits), (3, 4, {"01234567", "fedcba98"}))
        self.assertEqual(rows[0].records, {"one", "two", "late"})
        self.assertEqual(rows[0].machine.system, "aarch64")

    def test_a_calibration_says_which_cuda_a_driver_is_for(self):
        machine = ("CUDA 13.5, driver 600.1; gpu(0) NVIDIA B200 GPU-df3c1114-24c7-4a43-8149-b2a9b8445bb9; gpu(1) NVIDIA B200 "
                   "GPU-a2b5b4b1-b43d-3da2-fd8b-73b013e51299; links 01 10; 1 host nodes")
        rows = self.rows(calibration={"machine": machine})
        self.assertEqual((rows[0].what, rows[0].machine.gpus), ("`vmart calibrate`", 2))
        self.assertIn("| 600.1 | 13.5 | 2 x NVIDIA B200 |", support.page(rows, support.toolkits(self.records())))

    def test_simulated_machines_are_no_evidence(self):
        with self.assertRaisesRegex(LookupError, "sim:h200x2"):
            self.rows(one={"context": {**CONTEXT, "driver": "sim:h200x2"}, "results": [1]})

    def test_the_header_has_a_line_for_each_driver_model_and_number(self):
        rows = self.rows(one={"context": CONTEXT, "results": [1]}, two={"context": {**CONTEXT, "gpus": ["NVIDIA B200"] * 8}, "results": [1]},
                         three={"context": {**CONTEXT, "gpus": ["NVIDIA L4"]}, "results": [1]})
        lines = [line.strip() for line in support.lines_of_header(rows).splitlines() if line.startswith('    {"')]
        self.assertEqual(lines, ['{"600.1", "NVIDIA B200", 2, 1, ""},', '{"600.1", "NVIDIA B200", 8, 1, ""},', '{"600.1", "NVIDIA L4", 1, 1, ""},'])

    def test_what_failed_or_did_not_move_is_not_tested(self):
        known = {"version": "1.0", "driver_version": "600.1"}
        programs = [program("torch.a", "bare: exit 1", **known), program("jax.a", "nothing moved", **known), program("cupy.a", **known)]
        rows = self.rows(run={"versions": {}, "programs": programs})
        self.assertIn('{"600.1", "NVIDIA B200", 2, 2, "CuPy 1.0"},', support.lines_of_header(rows))

    def test_a_header_without_marks_is_refused(self):
        self.assertEqual(support.with_lines("a\n" + support.BEGIN + "old\n" + support.END + "b\n", "new\n"),
                         "a\n" + support.BEGIN + "new\n" + support.END + "b\n")
        with self.assertRaisesRegex(LookupError, "no lines"):
            support.with_lines("a\nb\n", "new\n")

    def test_limits_are_those_of_the_sources(self):
        self.assertEqual(support.limits()[:2], ("550", "12.4"))
        self.assertRegex(support.limits()[2], r"^1[3-9]\.\d$")


if __name__ == "__main__":
    unittest.main()
