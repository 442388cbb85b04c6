"""Goal: the table of programs counts what is evidence, names what is not as bare, and the page has the one of the
results in docs/measurements.

    programs_table_test.py
"""

import json
import pathlib
import unittest

import programs_table

ROOT = pathlib.Path(__file__).resolve().parents[3]


def result(name, verdict="", moves=10, **others):
    return {"name": name, "verdict": verdict, "moves": moves, "bytes": 2_000_000_000, "compared": 600,
            "details": "long", **others}


def document(*results, seconds=60, **versions):
    return {"seconds": seconds, "versions": versions, "programs": list(results)}


def table(*documents, versions=()):
    return programs_table.table(programs_table.merged(documents, versions))


class Table(unittest.TestCase):
    def test_has_a_row_for_each_kind_in_the_order_of_kinds(self):
        text = table(document(result("torch-tests.cuda"), result("torch-tests.multigpu"), result("nvcc.every_call"),
                              nvcc="13.0", driver="580.1"), versions=[("torch-tests", "2.9.1")])
        rows = text.splitlines()[2:4]
        self.assertEqual(rows[0], "| CUDA C++, nvcc | 13.0 | every_call | what they print | 1 of 1 | 10 | 2 |")
        self.assertEqual(rows[1], "| PyTorch's tests | 2.9.1 | cuda, multigpu | how each test ends of 1 200 | "
                                  "2 of 2 | 20 | 4 |")
        self.assertIn("at least 60 s. Driver 580.1.", text)

    def test_many_programs_are_a_number(self):
        self.assertIn("| 9 |", table(document(*(result(f"sample.{number}") for number in range(9)))))

    def test_a_difference_counts_and_a_program_that_fails_bare_does_not(self):
        text = table(document(result("torch.a"), result("torch.b", "still: differs"),
                              result("torch.c", "bare: exit 1", 0), result("torch.d", "hangs bare", 0),
                              result("torch.e", "", 0), result("torch.f", "moving: differs, as two bare runs do")))
        self.assertIn("| 2 of 4 |", text)
        self.assertIn("Not as bare: `torch.b` (still: differs), `torch.f`", text)
        self.assertIn("do not count: `torch.c`, `torch.d`.", text)
        self.assertIn("Nothing moved in: `torch.e`.", text)

    def test_the_last_result_of_a_program_counts_and_loses_its_details(self):
        merged = programs_table.merged([document(result("jax.steps", "moving: hangs"), jax="0.10"),
                                        document(result("jax.steps"), seconds=12, jax="0.11")])
        self.assertEqual(merged["programs"], [{key: value for key, value in result("jax.steps").items()
                                               if key != "details"}])
        self.assertEqual((merged["versions"], merged["seconds"]), ({"jax": "0.11"}, 12))

    def test_a_commit_and_gpus_of_all_results_stand_below_the_table(self):
        measured = {"commit": "a1b2c3d", "gpu": "2 x NVIDIA H200"}
        text = table(document(result("jax.steps", **measured), result("torch.a", **measured), driver="580.1"))
        self.assertIn("| GB moved |\n", text)
        self.assertIn("Driver 580.1. Commit a1b2c3d. On 2 x NVIDIA H200.\n", text)

    def test_commits_that_differ_are_a_column_and_stay_unknown_for_results_without(self):
        old = document(result("jax.steps"), result("torch.a"), result("torch.b", gpu="2 x NVIDIA H200"))
        new = document(result("torch.b", commit="a1b2c3d", gpu="2 x NVIDIA H200"),
                       result("triton.a", commit="e4f5a6b", gpu="2 x NVIDIA H200"))
        rows = table(programs_table.merged([old]), new).splitlines()
        self.assertTrue(rows[0].endswith("| GB moved | commit | GPU |"), rows[0])
        self.assertEqual(rows[0].count("|"), rows[1].count("|"))
        self.assertEqual([row.split(" | ", 6)[6] for row in rows[2:5]],
                         ["4 | a1b2c3d (1 of 2) | 2 x NVIDIA H200 (1 of 2) |", "2 | e4f5a6b | 2 x NVIDIA H200 |",
                          "2 |  |  |"])
        self.assertNotIn("Commit", "\n".join(rows[5:]))

    def test_an_unknown_kind_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "fortran"):
            table(document(result("fortran.a")))

    def test_only_what_is_between_the_marks_is_replaced(self):
        page = f"a\n{programs_table.BEGIN}old\n{programs_table.END}\nb\n"
        self.assertEqual(programs_table.with_table(page, "new\n"),
                         f"a\n{programs_table.BEGIN}\nnew\n\n{programs_table.END}\nb\n")
        with self.assertRaises(ValueError):
            programs_table.with_table("a\nb\n", "new\n")


class Page(unittest.TestCase):
    def test_has_the_table_of_the_results(self):
        page = (ROOT / "docs/guide/run.md").read_text(encoding="utf-8")
        files = sorted((ROOT / "docs/measurements").glob("run_programs_*.json"))
        text = table(*(json.loads(path.read_text(encoding="utf-8")) for path in files))
        self.assertEqual(page, programs_table.with_table(page, text))


if __name__ == "__main__":
    unittest.main()
