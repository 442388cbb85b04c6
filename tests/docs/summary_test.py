#!/usr/bin/env python3
"""Goal: the summary is made from the samples and pages, and says so if one does not have what a row quotes.
Method: the real samples and pages, changed in a copy; files of `bench/run.py --summary` with made-up samples.
"""

import contextlib
import io
import json
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import summary  # noqa: E402
from overview.steps import STEPS, VMART  # noqa: E402

# What the scripts that are no benchmarks give, by rows; the other names are those of the patterns of steps.
OF_SCRIPTS = {
    "pause": "pause/(vmart|torch_memory_saver)/(backup|dropped)",
    "standstill": "standstill/(vmart|checkpoint|restart)",
    "training": "training/(there|back|step_before|step_away|step_bare)",
    "beyond_hbm": "capacity/(bare|accelerate|gpu1|host|host_auto)/8x128",
}




def pattern_of(step):
    return OF_SCRIPTS.get(step.row) or re.sub(r"^\^(.*?)(/iterations|\$)$", r"\1", step.pattern)


def names_of(pattern):
    """All strings that match a pattern of words and choices."""
    choice = re.search(r"\(([^()]*)\)", pattern)
    if not choice:
        return [pattern]
    return [name for one in choice[1].split("|") for name in names_of(pattern[:choice.start()] + one + pattern[choice.end():])]


def measured(gpus, model="H200", without=(), commit="0123456789ab"):
    """A document of `bench/run.py --summary`, in which all that is possible was measured but the ways in `without`."""
    counters = {name: [1500.0] for name in ("park_us", "resume_us", "pause_us", "tokens_per_s", "limit_bytes", "weights_bytes",
                                            "moved_bytes", "compared_count", "equal_count", "stall_median_us", "stall_p99_us",
                                            "stall_max_us", "stall_count", "phase1_scheduler_gb_s", "phase1_best_gb_s",
                                            "phase1_first_touch_gb_s", "phase1_managed_gb_s")}
    steps, results = [], {}
    for step in STEPS:
        state = f"SKIPPED: needs {step.gpus} GPUs" if gpus < step.gpus else "FAILED: status 1" if step.name() in without else "done"
        steps.append({"row": step.row, "way": step.way, "state": state, "took_s": 1, "limit_s": step.limit_s, "samples": []})
        for name in names_of(pattern_of(step)) if state == "done" else ():
            results[name] = {"name": name, "processes": 1, "samples_us": [3000.0], "counters": counters}
    context = {"gpus": [f"NVIDIA {model}"] * gpus, "gpu_count": gpus, "commit": commit, "changed": False, "seed": 1, "driver": "cuda",
               "driver_version": "1.2", "command": "bench/run.py --summary", "cpu": "C", "cores": 2, "date": "D"}
    return {"context": context, "failed": [], "left_out": [], "open_cost": [], "steps": steps, "results": list(results.values())}


class Summary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.samples, self.results = pathlib.Path(folder.name, "samples"), pathlib.Path(folder.name, "results")
        shutil.copytree(summary.SAMPLES, self.samples)
        shutil.copytree(summary.RESULTS, self.results)
        kept = summary.SAMPLES, summary.RESULTS
        self.addCleanup(lambda: [setattr(summary, *one) for one in zip(("SAMPLES", "RESULTS"), kept)])
        summary.SAMPLES, summary.RESULTS = self.samples, self.results

    def replace(self, path, old, new):
        text = path.read_text(encoding="utf-8")
        self.assertEqual(text.count(old), 1)
        path.write_text(text.replace(old, new), encoding="utf-8")

    def test_the_page_and_readme_are_what_it_writes(self):
        summary.SAMPLES, summary.RESULTS = ROOT / "docs/measurements", ROOT / "docs/results"
        for path, text in summary.written().items():
            self.assertEqual(path.read_text(encoding="utf-8"), text, f"run docs/summary.py: {path}")

    def test_has_twelve_rows_each_with_a_rival_a_machine_and_a_commit(self):
        rows = [row() for row in summary.ROWS if row is not summary.park]
        self.assertEqual(len(rows), 12)
        for row in rows:
            for value in (row.what, row.ours, row.rival, row.machine, row.commit):
                self.assertTrue(value, row)

    def test_a_changed_sample_changes_its_row(self):
        path = self.samples / "run_timeline_h200x2.json"
        document = json.loads(path.read_text(encoding="utf-8"))
        document["bare"]["step_ms"], document["first_difference"] = 51.2, 17
        path.write_text(json.dumps(document), encoding="utf-8")
        row = summary.training()
        self.assertIn("51.2 ms", row.rival)
        self.assertIn("17 of 129 losses equal", row.ours)

    def test_a_program_that_differs_is_counted_as_such(self):
        before = summary.programs().ours
        path = self.samples / "run_programs_h200x2.json"
        document = json.loads(path.read_text(encoding="utf-8"))
        next(one for one in document["programs"] if one["moves"])["verdict"] = "moving: differs"
        path.write_text(json.dumps(document), encoding="utf-8")
        same, _, moved = before.split()[:3]
        self.assertTrue(summary.programs().ours.startswith(f"{int(same) - 1} of {moved} "), summary.programs().ours)

    def test_a_quoted_row_that_is_gone_or_changed_is_an_error(self):
        self.replace(self.results / "python.md", "15.4x and 5.7x", "14.9x and 5.7x")
        with self.assertRaisesRegex(LookupError, "python.md: 0 rows"):
            summary.pause()


class MeasuredAnew(unittest.TestCase):
    """In a copy of the pages, whose tables are those of the files."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        shutil.copytree(ROOT / "docs/results", self.root / "docs/results")
        shutil.copytree(ROOT / "docs/measurements", self.root / "docs/measurements", ignore=shutil.ignore_patterns("summary_*"))
        shutil.copy(ROOT / "README.md", self.root)
        self.patch(ROOT=self.root, RESULTS=self.root / "docs/results", SAMPLES=self.root / "docs/measurements")

    def patch(self, **values):
        for name, value in values.items():
            self.addCleanup(setattr, summary, name, getattr(summary, name))
            setattr(summary, name, value)

    def keep(self, name, document):
        (self.root / f"docs/measurements/summary_{name}.json").write_text(json.dumps(document), encoding="utf-8")

    def status(self, *arguments):
        kept, sys.argv = sys.argv, ["summary.py", *arguments]
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                return summary.main()
        finally:
            sys.argv = kept

    def page(self):
        """Its rows, by what they say, after a check that says they are new and one that finds nothing more."""
        self.assertEqual(self.status("--check"), 1)
        self.assertEqual(self.status(), 0)
        self.assertEqual(self.status("--check"), 0)
        self.text = (self.root / "docs/results/summary.md").read_text(encoding="utf-8")
        return [line.strip("| ").split(" | ") for line in self.text.splitlines() if line.startswith("|")][2:]

    def test_a_file_of_one_gpu_replaces_the_rows_that_it_has(self):
        self.keep("h200x1", measured(1))
        rows = self.page()
        anew = [row for row in rows if row[4] == "`01234567`"]
        self.assertEqual({row[3] for row in anew}, {"1 x H200"})
        self.assertEqual([row[0].split(" ")[0] for row in anew], ["4", "Pause", "`park`", "Inference", "`alloc`", "Allocate"])
        self.assertEqual({row[3] for row in rows if row not in anew}, {"2 x H200", "4 x H200"} | {row[3] for row in rows if "6 commits" in row})
        self.assertEqual(len(rows), 13)
        self.assertNotIn("GPU 1", next(row for row in anew if row[0].startswith("Inference"))[1])
        self.assertIn("driver 1.2", self.text)

    def test_a_file_of_two_gpus_replaces_all_that_is_not_quoted(self):
        self.keep("h200x2", measured(2))
        rows = self.page()
        self.assertEqual([row[0].split(" ")[0] for row in rows if row[4] != "`01234567`"], ["Unmodified", "CuPy's"])
        self.assertNotIn("not measured", self.text)

    def test_machines_stand_below_each_other_and_readme_has_the_first(self):
        self.keep("h100x2", measured(2, "H100", commit="b" * 12))
        self.keep("h200x1", measured(1, commit="c" * 12))
        machines = [row[3] for row in self.page() if row[0].startswith("Pause")]
        self.assertEqual(machines, ["1 x H200", "2 x H100"])
        readme = (self.root / "README.md").read_text(encoding="utf-8")
        pauses = [line for line in readme.splitlines() if line.startswith("| Pause and resume")]
        self.assertEqual(len(pauses), 1)
        self.assertIn("| 1 x H200 |", pauses[0])

    def test_without_a_rival_or_vmart_itself_a_row_stays_as_it_was(self):
        self.keep("h200x2", measured(2, without=("pause/torch_memory_saver", "pool/vmart", "training/vmart")))
        commits = {row[0].split(" ")[0]: row[4] for row in self.page()}
        self.assertEqual((commits["Pause"], commits["Allocate"], commits["A"]), ("`42c4f0de`", "`3b26bfa`", "`14e38c74`"))

    def test_a_rival_that_failed_among_others_is_told(self):
        self.keep("h200x2", measured(2, without=("to_other_gpu/managed prefetch",)))
        row = next(row for row in self.page() if row[0].startswith("4 GiB to the other GPU"))
        self.assertIn("managed memory, prefetched: not measured; the same driver calls by hand: 3.00 ms", row[2])

    def test_figures_of_a_simulated_machine_are_an_error(self):
        document = measured(2)
        document["context"].update(driver="sim:h200x2", gpus=[])
        self.keep("h200x2", document)
        with self.assertRaisesRegex(LookupError, "sim:h200x2, not on GPUs"):
            summary.written()

    def test_what_rows_read_is_what_steps_give(self):
        given = {name for step in STEPS for name in names_of(pattern_of(step))}
        read = set()

        class Recorded(summary.Head):
            def get(self, name):
                read.add(name)
                return super().get(name)

        self.patch(Head=Recorded)
        self.keep("h200x2", measured(2))
        summary.written()
        self.assertEqual(read - given, set())
        self.assertEqual({step.row for step in STEPS} - {make.__name__ for make in summary.ROWS}, set())
        self.assertEqual({step.row for step in STEPS if step.way == VMART} & {"programs", "cupy"}, set())


if __name__ == "__main__":
    unittest.main()
