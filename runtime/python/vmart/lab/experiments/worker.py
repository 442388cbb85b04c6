"""Processes of `vmart-lab`: workers, which answer questions, and other commands."""

import json
import os
import signal
import subprocess
import threading

from vmart.lab.errors import ExperimentError

STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM}


class Refusal(Exception):
    """What a worker was asked for cannot be done; says why."""


def start(command, **how):
    """A process that no stop signal reaches: Ctrl-C goes to all processes of a terminal, and stops the
    driver, which waits for what is running."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        return subprocess.Popen(command, **how)
    except OSError as error:
        raise ExperimentError(f"{command[0]}: {error.strerror}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_command(command):
    """Runs `vmart-lab` for what it leaves. Raises Refusal with what it printed."""
    process = start(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, printed = process.communicate()
    if process.returncode != 0:
        said = printed.decode(errors="replace").strip().removeprefix("vmart-lab: ")
        raise Refusal(said or how_it_ended(process.returncode))


def how_it_ended(status):
    if status >= 0:
        return f"vmart-lab ended with exit status {status}"
    return f"vmart-lab was ended by {signal.Signals(-status).name}"


class Worker:
    """A process of `vmart-lab cells`, started when it is first asked, and again after it has died. One
    thread at a time uses it."""

    def __init__(self, program):
        self.program = program
        self._process = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def line(self, what, **values):
        """The answer to a question as it is: a line of JSON, bytes. Raises Refusal."""
        if self._process is None:
            self._process = start([self.program, "cells"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        question = json.dumps({"do": what, **values}) + "\n"
        try:
            self._process.stdin.write(question.encode())
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line.endswith(b"\n"):
            raise Refusal(how_it_ended(self._end()))
        if line.startswith(b'{"error":'):
            raise Refusal(json.loads(line)["error"])
        return line

    def ask(self, what, **values):
        """The answer as a dict. Raises Refusal."""
        return json.loads(self.line(what, **values))

    def kill(self):
        """Ends it in the middle of an answer. Any thread."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self):
        if self._process is not None:
            self._end()

    def _end(self):
        process, self._process = self._process, None
        for pipe in (process.stdin, process.stdout):
            try:
                pipe.close()
            except BrokenPipeError:  # Of what could not be written.
                pass
        return process.wait()


class WorkerPool:
    """Does numbered jobs on several workers: an idle one takes the next number."""

    def __init__(self, program, count):
        self.workers = [Worker(program) for _ in range(max(count, 1))]
        self._lock = threading.Lock()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.workers:
            worker.close()

    def run(self, jobs, do, stop):
        """Calls `do(job, worker)` for each of `jobs`, in several threads. Begins no more once `stop()` is
        true or a job has raised. Raises what the first of these raised, when all that run have ended."""
        waiting = iter(list(enumerate(jobs)))
        failures = {}

        def work(worker):
            while True:
                with self._lock:
                    number, job = (None, None) if failures or stop() else next(waiting, (None, None))
                if number is None:
                    return
                try:
                    do(job, worker)
                except BaseException as error:  # Raised again below.
                    failures[number] = error

        threads = [threading.Thread(target=work, args=(worker,), daemon=True)
                   for worker in self.workers[:len(jobs)]]
        self._wait_for(threads, failures)
        if failures:
            raise failures[min(failures)]

    def _wait_for(self, threads, failures):
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException as error:  # Ctrl-C in a program that uses this package.
            failures[-1] = error
            for worker in self.workers:
                worker.kill()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()


def find_program():
    """`vmart-lab` of the installation that this file lies in, or the one in PATH."""
    import pathlib  # These take long to load.
    import shutil

    beside = pathlib.Path(__file__).resolve().parents[6] / "bin" / "vmart-lab"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("vmart-lab")
    if not found:
        raise ExperimentError("there is no vmart-lab in PATH; --program says where it is")
    return found
