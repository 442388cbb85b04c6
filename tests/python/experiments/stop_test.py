#!/usr/bin/env python3
"""Signals and kills: running cells end, no file is partial, and the next run goes on: stop_test.py VMART_LAB."""

import os
import signal
import subprocess
import sys
import time
import unittest

import rig

PROGRAM = rig.program_argument()
WAIT_S = 60
# Passes on nothing more when a cell is asked for, until the file GO is there.
WAITS = """
        import time
        while not os.path.exists({go!r}):
            time.sleep(0.01)
        real.stdin.write(line)
        real.stdin.flush()
        sys.stdout.buffer.write(real.stdout.readline())"""


# Stands for `vmart-lab`: makes a trace for ever.
MAKES = """#!/bin/sh
if [ "$1" = generate ]; then
  echo $$ > {pid}.new
  mv {pid}.new {pid}
  exec sleep 1000
fi
exec {program} "$@"
"""
RUNS = """
import sys
import vmart.lab
vmart.lab.run(*sys.argv[1:3], program=sys.argv[3])
"""


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


class Stops(rig.Rig):
    program = PROGRAM

    def setUp(self):
        super().setUp()
        self.write(rig.QUICK)
        self.run_into("whole")
        self.go = self.folder / "go"
        self.waiting, self.log = rig.stand_in(self.folder / "waits", PROGRAM, '"do": "cell"',
                                              WAITS.format(go=str(self.go)))

    def start(self, jobs):
        """A run in a process group of its own, as a terminal has it, once all its workers have a cell."""
        run = subprocess.Popen([sys.executable, "-m", "vmart.lab", "run", self.file, "--out", self.folder / "stopped",
                                "--no-report", "--jobs", str(jobs), "--program", self.waiting],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(self.end, run)
        self.wait_until(lambda: self.log.exists() and len(self.log.read_text().splitlines()) == jobs)
        return run

    def end(self, run):
        self.go.touch()  # So that no worker keeps the pipes open.
        run.kill()
        run.communicate(timeout=WAIT_S)

    def wait_until(self, what):
        end = time.monotonic() + WAIT_S
        while not what():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def finish(self):
        """What is left runs, and all is as if nothing had happened."""
        self.run_into("stopped", 2)
        self.assertEqual(self.results("whole"), self.results("stopped"))

    def test_a_watcher_that_stops_lets_cells_end(self):
        def stop(cells):
            self.told.stopped = cells >= 3

        self.told.at_cell = stop
        outcome = self.run_into("stopped", 2)
        self.assertTrue(outcome.stopped)
        self.assertIn(outcome.finished, range(3, 8))
        stopped = self.results("stopped")
        self.assertEqual(len(rig.cells_in(stopped)), outcome.finished)
        self.assertNotIn("results.csv", stopped)
        self.assertNotIn("unfinished", stopped)
        self.told.at_cell, self.told.stopped = lambda _: None, False
        self.finish()

    def test_a_signal_lets_cells_end(self):
        for number, send in ((signal.SIGINT, lambda run: os.killpg(run.pid, signal.SIGINT)),
                             (signal.SIGTERM, lambda run: run.terminate())):
            with self.subTest(number):
                run = self.start(2)
                send(run)
                time.sleep(0.2)
                self.assertIsNone(run.poll())
                self.go.touch()
                printed, errors = run.communicate(timeout=WAIT_S)
                self.assertEqual((run.returncode, errors), (130, ""))
                self.assertEqual(printed, "2 of 8 cells are finished; run the same command to continue: "
                                 f"{self.folder / 'stopped'}\n")
                self.finish()
                for path in (self.go, self.log):
                    path.unlink()
                os.rename(self.folder / "stopped", self.folder / f"stopped by {number}")

    def test_a_second_signal_ends_it_at_once(self):
        run = self.start(2)
        run.send_signal(signal.SIGINT)
        time.sleep(0.2)
        self.assertIsNone(run.poll())
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(timeout=WAIT_S), -signal.SIGINT)
        self.assertEqual(rig.cells_in(self.results("stopped")), [])
        self.go.touch()
        self.finish()

    def start_making(self, *command):
        """A run that makes a trace for ever, and the process that does it."""
        self.write({**rig.QUICK, "seeds": [1]})
        pid = self.folder / "pid"
        makes = self.folder / "makes"
        makes.write_text(MAKES.format(pid=pid, program=PROGRAM))
        makes.chmod(0o755)
        run = subprocess.Popen([*command, self.file, self.folder / "stopped", makes], stderr=subprocess.PIPE)
        self.addCleanup(self.end, run)
        self.wait_until(pid.exists)
        making = int(pid.read_text())
        self.addCleanup(lambda: os.kill(making, signal.SIGKILL) if is_running(making) else None)
        return run, making

    def test_what_makes_a_trace_can_be_ended_from_outside(self):
        run, making = self.start_making(sys.executable, "-c", RUNS)
        os.kill(making, signal.SIGTERM)
        self.assertIn(b"was ended by SIGTERM", run.communicate(timeout=WAIT_S)[1])

    def test_a_second_signal_ends_what_makes_a_trace(self):
        run, making = self.start_making("sh", "-c", f'exec {sys.executable} -m vmart.lab run "$0" --out "$1" --program "$2"')
        for _ in range(2):
            self.assertIsNone(run.poll())
            run.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        self.assertEqual(run.wait(timeout=WAIT_S), -signal.SIGTERM)
        self.wait_until(lambda: not is_running(making))

    def test_in_python_an_interrupt_ends_all_of_it(self):
        run, making = self.start_making(sys.executable, "-c", RUNS)
        run.send_signal(signal.SIGINT)
        self.assertIn(b"KeyboardInterrupt", run.communicate(timeout=WAIT_S)[1])
        self.assertFalse(is_running(making))

    def test_a_kill_leaves_whole_files_only(self):
        run = self.start(1)
        run.kill()
        run.wait(timeout=WAIT_S)
        self.go.touch()
        killed = self.results("stopped")
        self.assertIn("unfinished", killed)
        whole = self.results("whole")
        for name, data in killed.items():
            if not name.startswith("unfinished"):
                self.assertEqual(data, whole[name], name)
        self.finish()

    def test_a_worker_ends_when_nobody_reads_its_answers(self):
        worker = subprocess.Popen([PROGRAM, "cells"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        worker.stdout.close()
        self.assertEqual(worker.wait(timeout=WAIT_S), 1)  # Its input is still open.
        worker.stdin.close()


if __name__ == "__main__":
    unittest.main()
