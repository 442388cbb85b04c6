#!/usr/bin/env python3
"""`python3 -m vmart.lab run` where pipes end, standard files are closed and names are odd, and the program that
it starts: command_test.py VMART_LAB."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import unittest
from unittest import mock

import rig
from vmart.lab import ExperimentError
from vmart.lab.experiments import worker

PROGRAM = rig.program_argument()


class Command(rig.Rig):
    program = PROGRAM

    def setUp(self):
        super().setUp()
        self.write(rig.QUICK)

    def lab(self, *words, shell='exec "$@"', **environment):
        """`python3 -m vmart.lab run`, started by a line of shell."""
        return subprocess.run(["sh", "-c", shell, "sh", sys.executable, "-B", "-m", "vmart.lab", "run", "--program",
                               PROGRAM, *words], capture_output=True, check=False, env={**os.environ, **environment})

    def test_a_list_that_nobody_reads_on_ends_without_a_word(self):
        self.write({**rig.QUICK, "seeds": list(range(2000))})  # More than a pipe holds.
        done = self.lab(self.file, "--list", shell='{ "$@"; echo $? >&2; } | head -n 1')
        self.assertEqual((done.stdout.decode(), done.stderr.decode()),
                         (f"{rig.FIRST.replace('s1', 's0')}\n", f"{128 + signal.SIGPIPE}\n"))

    def test_closed_standard_files_do_not_matter(self):
        for closed in ("2>&-", ">&-", "<&- >&- 2>&-"):
            with self.subTest(closed):
                out = self.folder / closed
                done = self.lab(self.file, "--out", out, "--only", rig.FIRST, shell=f'exec "$@" {closed}')
                self.assertEqual((done.returncode, done.stderr), (0, b""))
                self.assertEqual(len(rig.cells_in(self.results(closed))), 1)

    def test_a_name_that_is_not_utf_8_is_refused(self):
        odd = os.fsencode(self.folder) + b"/\xff"
        os.mkdir(odd)
        pathlib.Path(os.fsdecode(odd + b"/experiment.json")).write_bytes(self.file.read_bytes())
        for words in ((odd + b"/experiment.json", "--out", self.folder / "results"), (self.file, "--out", odd)):
            done = self.lab(*words, "--no-report")
            self.assertEqual(done.returncode, 1)
            self.assertIn("\\udcff", done.stderr.decode())
            self.assertIn(": is not UTF-8; choose another name\n", done.stderr.decode())

    def test_a_name_that_the_terminal_cannot_show_is_shown_otherwise(self):
        done = self.lab(self.file, "--out", self.folder / "ré", "--no-report", PYTHONIOENCODING="ascii")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertTrue(done.stdout.endswith(b"r\\xe9\n"), done.stdout)


class Program(rig.Rig):
    program = PROGRAM

    def setUp(self):
        super().setUp()
        self.write(rig.QUICK)

    def test_a_program_of_another_version_is_refused(self):
        program, _ = rig.stand_in(self.folder / "other", PROGRAM, '"do": "version"', """print('{"version":"9.9.9"}')""")
        for other in (program, "/bin/echo"):
            self.assertIn(f"{other}: does not answer as the vmart-lab of this version does: vmart-lab ",
                          self.error_of("results", program=other))
        self.assertFalse((self.folder / "results").exists())

    def test_one_in_a_shallow_folder_is_looked_for(self):
        with mock.patch.object(worker, "__file__", "/lab/worker.py"), mock.patch.dict(os.environ, PATH="/none"):
            with self.assertRaisesRegex(ExperimentError, "there is no vmart-lab in PATH"):
                worker.find_program()

    def test_where_threads_run_out_those_that_there_are_do_all(self):
        start, begun = worker.WorkerThread.start, []

        def only_one(thread):
            if threading.active_count() > 1:
                raise RuntimeError("can't start new thread")
            begun.append(thread)
            start(thread)

        with mock.patch.object(worker.WorkerThread, "start", only_one):
            self.assertEqual(self.run_into("results", 3).finished, 8)
        self.assertTrue(begun)
        with mock.patch.object(worker.WorkerThread, "start", side_effect=RuntimeError("can't start new thread")):
            self.assertIn("no worker can be started: can't start new thread", self.error_of("other"))


if __name__ == "__main__":
    unittest.main()
