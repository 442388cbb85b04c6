"""Processes of `vmart-lab`: workers, which answer questions, and other commands."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

import vmart
from vmart.lab.errors import ExperimentError
from vmart.lab.policy_files import is_file_of_python

PROTOCOL = 2  # As `lab_protocol` in runtime/base/interface_versions.hpp.
STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM}


class Refusal(Exception):
    """What a worker was asked for cannot be done; says why."""


def start(command, **how):
    """A process in a session of its own: Ctrl-C goes to all processes of a terminal, and stops the driver,
    which waits for what is running."""
    try:
        return subprocess.Popen(command, start_new_session=True, **how)
    except OSError as error:
        raise ExperimentError(f"{command[0]}: {error.strerror}") from error


def end(process):
    """Ends a process, and what it has started."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def how_it_ended(status):
    if status >= 0:
        return f"vmart-lab ended with exit status {status}"
    return f"vmart-lab was ended by {signal.Signals(-status).name}"


def parsed(line):
    """A line of JSON, bytes, with its line end, as a dict; None for anything else."""
    try:
        value = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def utf8(path):
    """A path as text. Raises ExperimentError for one that no question can name."""
    text = os.fsdecode(path)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ExperimentError(f"{text.encode(errors='backslashreplace').decode()}: is not UTF-8; "
                              "choose another name") from error
    return text


class Worker:
    """A process of `vmart-lab cells`, started when it is first asked, and again after it has died. One
    thread at a time uses it."""

    def __init__(self, program, asks_python=True):
        self.program = program
        self._of_python = PythonWorker(program, asks_python=False) if asks_python else None
        self._process = None
        self._running = []  # What `kill` has to end.
        self._killed = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def line(self, what, **values):
        """The answer to a question as it is: a line of JSON, bytes. Raises Refusal."""
        if self._of_python is not None and is_file_of_python(values.get("library") or values.get("policy")):
            return self._of_python.line(what, **values)
        if self._process is None:
            self._begin()
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
            raise Refusal(self._parsed(line)["error"])
        return line

    def ask(self, what, **values):
        """The answer as a dict. Raises Refusal."""
        return self._parsed(self.line(what, **values))

    def run(self, *words):
        """Runs another command of `vmart-lab` for what it leaves. Raises Refusal with what it printed."""
        process = self._start(self.program, *words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        _, printed = process.communicate()
        self._running.remove(process)
        if process.returncode != 0:
            said = printed.decode(errors="replace").strip().removeprefix("vmart-lab: ")
            raise Refusal(said or how_it_ended(process.returncode))

    def kill(self):
        """Ends it in the middle of an answer, for good. Any thread."""
        self._killed = True
        for process in list(self._running):
            end(process)
        if self._of_python is not None:
            self._of_python.kill()

    def refuse(self, answer, wanted):
        """Raises Refusal for an answer that is not what was `wanted`, and does not use its process again."""
        self.close()
        raise Refusal(f"vmart-lab answered {answer!r:.80} instead of {wanted}")

    def close(self):
        if self._process is not None:
            self._end()
        if self._of_python is not None:
            self._of_python.close()

    def _begin(self):
        self._process = self._start(*self._cells(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            answer = self.ask("version")
            if answer.get("protocol") != PROTOCOL:
                self.refuse(answer, f"protocol {PROTOCOL}")
        except Refusal as error:
            raise Refusal(f"{self.program}: does not answer as the vmart-lab of this version does: {error}") from error

    def _parsed(self, line):
        answer = parsed(line)
        if answer is None:
            self.refuse(line, "an object of JSON")
        return answer

    def _cells(self):
        return [self.program, "cells"]

    def _start(self, *command, **pipes):
        process = start(list(command), **pipes)
        self._running.append(process)
        if self._killed:  # Just before, so that `kill` did not know it.
            end(process)
        return process

    def _end(self):
        process, self._process = self._process, None
        for pipe in (process.stdin, process.stdout):
            try:
                pipe.close()
            except BrokenPipeError:  # Of what could not be written.
                pass
        status = process.wait()
        self._running.remove(process)
        return status


class PythonWorker(Worker):
    """A process of Python that is asked about policies of Python, beside that of a `Worker`."""

    def _cells(self):
        # Finds this package where it was found, and takes no module from the current folder.
        begin = (f"import sys; sys.path = [{os.path.dirname(vmart.__path__[0])!r}, *filter(None, sys.path)]; "
                 "from vmart.lab.experiments.python_cells import main; main()")
        return [sys.executable, "-c", begin]


class WorkerThread(threading.Thread):
    """A thread whose end can be awaited again after an exception has ended a wait, which `join` does not allow
    in all versions of Python."""

    def __init__(self, work, worker):
        super().__init__(daemon=True)
        self.work = work
        self.worker = worker
        self.ended = threading.Event()

    def run(self):
        try:
            self.work(self.worker)
        finally:
            self.ended.set()


def start_some(threads):
    """Starts them, or as many as the system has room for. Raises ExperimentError if that is none."""
    for number, thread in enumerate(threads):
        try:
            thread.start()
        except RuntimeError as error:
            if number == 0:
                raise ExperimentError(f"no worker can be started: {error}") from error
            return


def wait_for_begun(threads):
    for thread in threads:
        if thread.ident is not None:
            thread.ended.wait()


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

    def kill(self):
        """Ends what all workers do, for good. Any thread, also in a signal's handler."""
        for worker in self.workers:
            worker.kill()

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

        self._wait_for([WorkerThread(work, worker) for worker in self.workers[:len(jobs)]], failures)
        if failures:
            raise failures[min(failures)]

    def _wait_for(self, threads, failures):
        try:
            start_some(threads)
            wait_for_begun(threads)
        except BaseException as error:  # Ctrl-C in a program that uses this package.
            failures[-1] = error
            self.kill()
            wait_for_begun(threads)


def find_program():
    """`vmart-lab` of the installation that this file lies in, or the one in PATH."""
    import shutil  # This takes long to load.

    prefix = os.path.join(os.path.dirname(os.path.realpath(__file__)), *[".."] * 6)
    beside = os.path.join(os.path.normpath(prefix), "bin", "vmart-lab")
    found = beside if os.access(beside, os.X_OK) else shutil.which("vmart-lab")
    if not found:
        raise ExperimentError("there is no vmart-lab in PATH; --program says where it is")
    return found
