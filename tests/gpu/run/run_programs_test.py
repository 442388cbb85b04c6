"""The harness of run_programs.py sees what it has to see, with a program on simulated GPUs.

run_programs_test.py BUILD PROGRAM      PROGRAM is that of tests/run
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import comparing
import programs_table
import run_programs
import versions
from playing import Outcome
from program_list import Program

BUILD, PROGRAM = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
OPTIONS = argparse.Namespace(seconds=2.0, still_seconds=0.5, seed=1, jobs=2, stop=None,
                             modes=["bare", "still", "moving"], commit="a1b2c3d")
# The program works until its input is closed.
FOR_A_WHILE = ("sh", "-c", "sleep {seconds} | $0 linked stream", str(PROGRAM))
FREE_IN_THE_END = "^freed: "  # Moves need memory of the runtime's own.


def shell(name, text, **others):
    return Program(name, ("sh", "-c", text), **others)


def play(program):
    harness = run_programs.Harness(BUILD / "runtime/tools/vmart", {}, OPTIONS)
    return run_programs.play_all(harness, [program], None)[0]


class Harness(unittest.TestCase):
    def test_moves_memory_of_a_program_that_prints_the_same(self):
        result = play(Program("program", FOR_A_WHILE, ignored=(FREE_IN_THE_END,)))
        self.assertEqual((result.verdict, result.asides), ("", []), result.details)
        self.assertGreater(result.moves, 0)
        self.assertGreater(result.bytes, result.moves)
        self.assertEqual(result.stuck, 0)
        self.assertEqual(result.runs, {"bare": 1, "still": 1, "moving": 1})

    def test_repeats_a_short_program_and_counts_all_its_moves(self):
        short = tuple(part.replace("{seconds}", "0.6") for part in FOR_A_WHILE)
        result = play(Program("short", short, repeats=True, ignored=(FREE_IN_THE_END,)))
        self.assertEqual(result.verdict, "", result.details)
        self.assertGreaterEqual(result.runs["moving"], 2)
        self.assertGreater(result.moves, 0)

    def test_a_run_in_which_nothing_moves_shows_nothing(self):
        self.assertEqual(play(shell("idle", "echo done")).verdict, "nothing moved")
        self.assertEqual(play(shell("idle", "echo done", moves=False)).verdict, "")

    def test_writes_what_the_table_is_made_of(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out.json"
            harness = run_programs.Harness(BUILD / "runtime/tools/vmart", {}, OPTIONS)
            run_programs.play_all(harness, [shell("nvcc.idle", "echo one; echo two", moves=False)], out)
            document = programs_table.merged([json.loads(out.read_text())])
        self.assertEqual(document["programs"][0]["compared"], 2)
        text = programs_table.table(document)
        self.assertIn("| idle | what they print | 1 of 1 | 0 |", text)
        self.assertRegex(text, r"Commit a1b2c3d\. On \d+ x \w.*\.\n")

    def test_names_the_commit_of_its_checkout_only(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(versions, "ROOT", pathlib.Path(folder)):
            self.assertEqual(versions.commit(), "")
            for command in (["init"], ["config", "user.email", "a@b"], ["config", "user.name", "a"],
                            ["commit", "--allow-empty", "-m", "first"]):
                subprocess.run(["git", "-C", folder, *command], check=True, capture_output=True)
            self.assertRegex(versions.commit(), "^[0-9a-f]{7,}$")
            changed = pathlib.Path(folder) / "changed"
            changed.touch()
            subprocess.run(["git", "-C", folder, "add", "changed"], check=True)
            self.assertRegex(versions.commit(), r"^[0-9a-f]{7,}\+changes$")

    def test_sees_another_output(self):
        program = shell("differs", "echo control is $VMART_CONTROL", moves=False)
        result = play(program)
        self.assertEqual(result.verdict, "still: differs")
        self.assertIn("+control is 1", result.details)

    def test_sees_another_exit_code(self):
        program = shell("fails", "echo x; test -z \"$VMART_CONTROL\"", moves=False)
        result = play(program)
        self.assertEqual(result.verdict, "still: differs")
        self.assertIn("exit 1", result.details)

    def test_a_program_that_never_prints_the_same_is_no_evidence(self):
        program = shell("random", "cat /proc/sys/kernel/random/uuid", moves=False)
        self.assertEqual(play(program).verdict, "still: differs, as two bare runs do")

    def test_what_two_bare_runs_print_differently_is_left_out(self):
        sample = shell("sample", "cat /proc/sys/kernel/random/uuid; echo Test passed", moves=False,
                       compare="sample")
        result = play(sample)
        self.assertEqual((result.verdict, len(result.notes)), ("", 2), result.details)
        for more, verdict in (("", ""), ("; test -z \"$VMART_CONTROL\" || echo FAILED t::stable",
                                         "still: differs")):
            with self.subTest(more=more), tempfile.TemporaryDirectory() as folder:
                text = f"echo PASSED t::stable; test -e {folder}/x && echo FAILED t::once || " \
                       f"echo PASSED t::once; touch {folder}/x" + more
                tests = shell("tests", text, moves=False, compare="pytest")
                self.assertEqual(play(tests).verdict, verdict)

    def test_a_test_that_is_not_compared_may_fail_without_vmart_only(self):
        with tempfile.TemporaryDirectory() as folder:
            text = f"echo PASSED t::stable; x=$(ls {folder} | wc -l); touch {folder}/$x; " \
                   "test $x != 0 && echo PASSED t::once && exit 0; echo FAILED t::once; exit 1"
            tests = shell("tests", text, moves=False, compare="pytest", exit=None)
            self.assertEqual(play(tests).verdict, "")
            crash = shell("crash", text.replace("exit 0", "exit 139"), moves=False, compare="pytest", exit=None)
            for number in range(9):
                (pathlib.Path(folder) / str(number)).unlink(missing_ok=True)
            self.assertEqual(play(crash).verdict, "still: differs")

    def test_a_program_that_fails_bare_is_no_evidence(self):
        self.assertEqual(play(shell("broken", "echo x; exit 3")).verdict, "bare: exit 3")
        self.assertEqual(play(shell("mute", "true")).verdict, "bare: nothing to compare")

    def test_ends_a_program_that_hangs_and_says_where(self):
        program = shell("hangs", "echo x; test -z \"$VMART_CONTROL\" || sleep 1000", limit_s=1,
                        moves=False)
        result = play(program)
        self.assertEqual(result.verdict, "still: hangs")
        self.assertIn("sleep 1000", result.details)
        self.assertIn("S (sleeping)", result.details)


class Views(unittest.TestCase):
    def assert_same(self, compare, first, second, is_same=True):
        program = Program("any", (), compare=compare)
        different = comparing.difference(program, Outcome(0, first, "", 1.0),
                                         Outcome(0, second, "", 1.0))
        self.assertEqual(different == "", is_same, different)

    def test_of_samples_leave_out_times_but_not_results(self):
        self.assert_same("sample", "took 1.25 ms at 0x7f00\nTest passed", "took 3.5 ms at 0x7e00\nTest passed")
        self.assert_same("sample", "Test passed", "Test FAILED", False)
        self.assert_same("sample", "errors: 0", "errors: 3", False)

    def test_of_nccl_tests_keep_the_errors(self):
        row = "1048576 262144 float sum -1 {} 9.58 9.58 {} 103.1 10.17 10.17 0\n"
        self.assert_same("nccl", row.format("109.4", "0"), row.format("88.1", "0"))
        self.assert_same("nccl", row.format("109.4", "0"), row.format("109.4", "5"), False)

    def test_of_pytest_name_the_tests(self):
        self.assert_same("pytest", "PASSED a::b\n1 passed in 3 s", "PASSED a::b\n1 passed in 9 s")
        self.assert_same("pytest", "PASSED a::b\n", "FAILED a::b - why\n", False)

    def test_of_pytest_see_a_subtest_that_fails_and_no_names_of_workers(self):
        crashed = "FAILED a::b - worker '{}' crashed while running 'a::b'\n"
        self.assert_same("pytest", crashed.format("gw0"), crashed.format("gw3"))
        self.assert_same("pytest", "PASSED a::b\n", "PASSED a::b\nSUBFAILED(i='1 (2)') a::b - why\n", False)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
