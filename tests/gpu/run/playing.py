"""Runs a program with a time limit, and says where it hangs."""

import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

DEBUGGERS = ("gdb", "cuda-gdb")  # The first that is there shows where threads wait.
DEBUGGER_S = 45
PROCESSES_SHOWN = 6


@dataclass
class Outcome:
    """How a run ended. `exit` is negative for a signal, and None if it hung and was killed."""

    exit: int | None
    out: str
    errors: str
    seconds: float
    hang: str = ""
    asides: list = field(default_factory=list)  # What vmart said on standard error.


def environment(changes):
    """Without settings of whoever runs this, for programs that find the same GPUs and modules."""
    result = {name: value for name, value in os.environ.items()
              if not name.startswith("VMART_") and name != "LD_PRELOAD"}
    result.update({"PYTHONFAULTHANDLER": "1", "PYTHONDONTWRITEBYTECODE": "1",
                   "PYTHONHASHSEED": "0"})
    result.update(changes)
    return result


def play(command, changes, limit_s, folder):
    """Blocks until the program ends, at most `limit_s` and the time to look at a hang."""
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as out, \
            tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(
            [str(part) for part in command], env=environment(changes), cwd=folder, stdout=out,
            stderr=errors, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=no_core)
        hang = ""
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code, hang = None, describe(process.pid)
            end_all(process)
        seconds = time.monotonic() - begin
        kill_session(process.pid, signal.SIGKILL)  # Children that outlive it are nobody's.
        out.seek(0)
        errors.seek(0)
        text = errors.read()
        return Outcome(code, out.read(), text, seconds, hang, asides_in(text))


def asides_in(errors):
    return [line for line in errors.splitlines() if line.startswith("vmart run: ")]


def no_core():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def members(session):
    """Processes of a session, the oldest first."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(folder.name))
    return sorted(found)


def kill_session(session, number):
    for process in members(session):
        try:
            os.kill(process, number)
        except ProcessLookupError:
            pass


def end_all(process):
    """First so that Python's fault handler shows its stacks, then for good."""
    kill_session(process.pid, signal.SIGABRT)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        pass
    kill_session(process.pid, signal.SIGKILL)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:  # In the kernel, and not to be killed.
        pass


def describe(session):
    """Where the threads of each process wait."""
    parts = []
    for process in members(session)[:PROCESSES_SHOWN]:
        command = read(f"/proc/{process}/cmdline").replace("\0", " ").strip()
        parts.append(f"== process {process}: {command[:200]}")
        parts += threads_of(process)
        parts.append(stacks_of(process))
    return "\n".join(parts)


def threads_of(process):
    lines = []
    for task in sorted(pathlib.Path(f"/proc/{process}/task").glob("*")):
        state = next((line for line in read(task / "status").splitlines()
                      if line.startswith("State:")), "State: ?")
        lines.append(f"   {task.name} {read(task / 'comm').strip()}: {state[6:].strip()}, "
                     f"{read(task / 'wchan') or '?'}, call {read(task / 'syscall').split(' ')[0]}")
    return lines


def read(path):
    try:
        return pathlib.Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


def stacks_of(process):
    debugger = next(filter(None, map(shutil.which, DEBUGGERS)), None)
    if debugger is None:
        return f"   no stacks: none of {', '.join(DEBUGGERS)} is installed"
    command = [debugger, "-q", "-batch", "-nx", "-p", str(process), "-ex", "set width 0",
               "-ex", "thread apply all bt 16"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=DEBUGGER_S, check=False)
    except subprocess.TimeoutExpired:
        return f"   no stacks: {debugger} did not end within {DEBUGGER_S} s"
    lines = [line for line in done.stdout.splitlines() if line.startswith(("Thread", "#"))]
    return "\n".join(lines) or f"   no stacks: {(done.stderr or done.stdout).strip()[-300:]}"
