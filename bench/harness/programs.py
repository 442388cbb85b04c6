"""What the scripts that measure have in common: flags, leaving where something is missing, starting programs with a
limit, and output that reads like Google Benchmark's."""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

SKIPPED = 77


def skip(reason):
    """Says so. Returns the exit status, which ctest shows as skipped."""
    print(f"SKIPPED: {reason}", file=sys.stderr)
    return SKIPPED


def parser_of(about):
    return argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)


def run_text(command, environment, limit_s):
    """What the command prints, on either stream, and its exit status. Raises: RuntimeError that it took too long."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    try:
        out, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            pass  # The driver keeps it; it ends when it is let go.
        raise RuntimeError(f"not over after {limit_s:.0f} s") from None
    return out, errors, process.returncode


def run_json(command, environment, limit_s):
    """What the command prints. Raises: RuntimeError with its last words, or that it took too long."""
    out, errors, status = run_text(command, environment, limit_s)
    if status:
        raise RuntimeError(f"status {status}: {errors.strip()[-500:]}")
    return json.loads(out)


class Benchmarks:
    """The flags and the output of Google Benchmark, of a script that loads the library."""

    def __init__(self, about, **more):
        """`more`: the default and the help of each further flag."""
        parser = parser_of(about)
        parser.add_argument("library")
        for name, (default, text) in more.items():
            kind = {"action": "store_true"} if default is False else {"type": type(default), "default": default}
            parser.add_argument(f"--{name}", help=text, **kind)
        parser.add_argument("--benchmark_filter", default="")
        parser.add_argument("--benchmark_out", type=pathlib.Path)
        self.flags, self.entries = parser.parse_known_args()[0], []

    def wants(self, name):
        return re.search(self.flags.benchmark_filter, name) is not None

    def add(self, name, time_unit, time, error=None, **counters):
        """Prints the entry and writes all there are: a hang in the next one loses nothing."""
        entry = {"name": name, "run_type": "iteration", "time_unit": time_unit, "real_time": time, **counters}
        if error:
            entry.update(error_occurred=True, error_message=error)
        self.entries.append(entry)
        print(json.dumps(entry), flush=True)
        if self.flags.benchmark_out:
            self.flags.benchmark_out.write_text(json.dumps({"benchmarks": self.entries}), encoding="utf-8")

    def status(self):
        return 1 if any("error_occurred" in entry for entry in self.entries) else 0
