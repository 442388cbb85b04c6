#!/usr/bin/env python3
"""What the runners of other projects' tests (tests/gpu/suites) conclude: which tests count against vmart. The last test runs
pytest on a project of its own, if pytest, xdist and timeout are there."""

import contextlib
import importlib.util
import io
import json
import pathlib
import sys
import tempfile
import textwrap
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "gpu" / "suites"))

import compare  # noqa: E402

PROJECT = """
    import os, time

    OURS = os.environ.get("WITH_VMART")

    def test_good(): pass
    def test_bad(): assert False
    def test_worse(): assert not OURS, "only here"
    def test_crash():
        if OURS: os.abort()
    def test_hang():
        if OURS: time.sleep(600)
    def test_ends(late): pass
"""
CONFTEST = """
    import os, pytest, record_results

    @pytest.fixture
    def late():
        yield
        assert not os.environ.get("WITH_VMART"), "in the end"

    def pytest_sessionfinish(session):
        if os.environ.get("WITH_VMART"): record_results.note(used=1)
"""


def results(used=1, **outcomes):
    lines = [{"test": name, "outcome": outcome, "error": ""} for name, outcome in outcomes.items()]
    return compare.Results([*lines, {"used": used}])


def suite(**more):
    return compare.Suite("toy", pathlib.Path("."), [], {}, **more)


class Conclusions(unittest.TestCase):
    def verdict(self, bare, ours, **more):
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            good = compare._verdict(suite(**more), bare, ours)
        return good, told.getvalue()

    def test_a_test_that_passes_bare_only_counts(self):
        good, told = self.verdict(results(a="passed", b="passed"), results(a="passed", b="failed"))
        self.assertFalse(good)
        self.assertIn("WORSE: b", told)
        self.assertIn("1 of 2 tests that apply pass", told)

    def test_one_that_did_not_run_or_was_skipped_counts_too(self):
        for ours in (results(a="passed"), results(a="passed", b="skipped")):
            self.assertFalse(self.verdict(results(a="passed", b="passed"), ours)[0])

    def test_what_fails_bare_does_not_count(self):
        good, told = self.verdict(results(a="passed", b="failed"), results(a="passed", b="failed"))
        self.assertTrue(good)
        self.assertIn("fails bare: b (failed with vmart)", told)

    def test_what_is_explained_does_not_count(self):
        bare, ours = results(**{"a": "passed", "t.py::b[x]": "passed"}), results(**{"a": "passed", "t.py::b[x]": "failed"})
        good, told = self.verdict(bare, ours, explained={"*::b[*": "there is no b"})
        self.assertTrue(good)
        self.assertIn("why: there is no b", told)
        self.assertIn("1 of 1 tests that apply", told)

    def test_an_explanation_that_is_not_needed_is_told(self):
        _, told = self.verdict(results(a="passed", b="passed"), results(a="passed", b="passed"), explained={"b": "old"})
        self.assertIn("passes although it is explained: b", told)

    def test_a_run_without_vmart_proves_nothing(self):
        good, told = self.verdict(results(a="passed"), results(used=0, a="passed"))
        self.assertFalse(good)
        self.assertIn("never asked for memory", told)

    def test_a_share_may_be_enough(self):
        bare = results(**{f"t{number}": "passed" for number in range(10)})
        ours = results(**{f"t{number}": "failed" if number == 0 else "passed" for number in range(10)})
        self.assertFalse(self.verdict(bare, ours)[0])
        self.assertTrue(self.verdict(bare, ours, share_needed=0.9)[0])
        self.assertFalse(self.verdict(bare, ours, share_needed=0.9, passed_needed=10)[0])

    def test_the_worst_outcome_of_a_test_is_its_outcome(self):
        lines = [{"test": "a", "outcome": outcome, "error": error} for outcome, error in (("passed", ""), ("failed", "late"))]
        found = compare.Results(lines)
        self.assertEqual((found.outcomes, found.errors), ({"a": "failed"}, {"a": "late"}))


class WithPytest(unittest.TestCase):
    def test_crashes_and_hangs_cost_one_test(self):
        if any(importlib.util.find_spec(module) is None for module in ("pytest", "xdist", "pytest_timeout")):
            self.skipTest("needs pytest, xdist and timeout")
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for name, text in (("test_toy.py", PROJECT), ("conftest.py", CONFTEST)):
                (folder / name).write_text(textwrap.dedent(text))
            toy = compare.Suite("toy", folder, [compare.Part(["test_toy.py"], 2, timeout_s=120)], {}, test_timeout_s=10,
                                environment={"vmart": {"WITH_VMART": "1"}})  # fmt: skip
            told = io.StringIO()
            with contextlib.redirect_stdout(told):
                status = compare.run(toy, types.SimpleNamespace(only=None, logs=folder / "logs"), 1)
            lines = [json.loads(line) for line in (folder / "logs" / "toy.vmart.0.jsonl").read_text().splitlines()]
        worse = {line.split("::")[1] for line in told.getvalue().splitlines() if "WORSE" in line}
        self.assertEqual(status, 1)
        self.assertEqual(worse, {"test_worse", "test_crash", "test_hang", "test_ends"}, told.getvalue())
        self.assertIn("only here", "".join(line.get("error", "") for line in lines))
        self.assertIn("fails bare: test_toy.py::test_bad", told.getvalue())


if __name__ == "__main__":
    unittest.main()
