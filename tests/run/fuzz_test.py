"""Random calls of the driver look the same bare, under `vmart run`, and under `vmart run` while all memory moves at
random. fuzz_test.py VMART PROGRAM [--from SEED] [--seeds N] [--jobs N] [--keep FOLDER]"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading

HOW = ("bare", "still", "moving")
CALLS = 250
OPTIONS = ((), ("--pools",), ("--vmm",), ("--pools", "--vmm"), ("--pools", "--vmm", "--min", "64KiB"),
           ("--min", "4MiB"), ("--pools", "--vmm", "--policy", "auto"),
           ("--capacity", "gpu0=32MiB"), ("--capacity", "gpu0=32MiB,gpu1=32MiB", "--min", "64KiB"),
           ("--capacity", "gpu0=32MiB,gpu1=32MiB", "--overcommit"),
           ("--capacity", "gpu0=64MiB,gpu1=64MiB", "--pools"))

# What may differ, as docs/guide/run.md says: a line that contains the pattern is not compared if the command has
# the option.
DIFFERENCES = (
    (" of freed memory ", "", "it stays mapped for later allocations"),
    (r"^T\d+   total ", "--capacity", "the GPU looks as large as the limit"),
)

# What a busy machine may make vmart say.
UNIMPORTANT = r"vmart: warn: policy \w+: it has not answered within .*\n"


class Seed:
    """One sequence of calls: everything about it follows from its number."""

    def __init__(self, number):
        choose = random.Random(number)
        self.number = number
        self.threads = choose.choice((1, 1, 2, 3))
        self.streams = choose.choice(("linked", "linked", "per_thread"))
        self.options = choose.choice(OPTIONS)
        self.stop = ("gate", "suspend")[number % 2]

    def command(self, program):
        return [str(program), str(self.number), str(CALLS), str(self.threads), self.streams]

    def __str__(self):
        return f"seed {self.number} ({self.threads} threads, {self.streams}, {self.stop}, {' '.join(self.options) or 'no options'})"


class Migrator(threading.Thread):
    """Moves memory of the process that listens there, again and again, until that ends."""

    def __init__(self, path, seed):
        super().__init__(daemon=True)
        self._path = path
        self._choose = random.Random(seed)
        self._to = ""
        self.ended = threading.Event()
        self.bytes_moved = 0
        self.failure = ""  # What ended it, other than the end of the process.

    def run(self):
        try:
            with self._connected() as self._socket:
                self._answers = self._socket.makefile()
                while not self.ended.is_set():
                    self._move()
        except OSError:  # The process has ended.
            pass
        except Exception as error:
            self.failure = f"the migrator: {error!r}"

    def _connected(self):
        while not self.ended.wait(0.001):
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(str(self._path))
                return connection
            except OSError:  # It listens once it has allocated.
                connection.close()
        raise OSError("it has ended")

    def _ask(self, **request):
        self.ended.wait(0.002)  # The socket serves 500 requests in a second.
        self._socket.sendall((json.dumps(request) + "\n").encode())
        line = self._answers.readline()
        if not line.endswith("\n"):
            raise OSError("it has ended")
        return json.loads(line)

    def _move(self):
        what = self._choose.choice(("run", "run", "all", "largest:2", "newest:1", "oldest:2"))
        self._to = self._choose.choice([place for place in ("gpu0", "gpu1", "host0") if place != self._to])
        self._ask(command="migrate", what=what, to=self._to)
        if self._choose.randrange(8) == 0:
            stats = self._ask(command="stats")
            if "ok" not in stats:
                raise RuntimeError(f"stats: {stats}")
            self.bytes_moved = stats["ok"]["runtime"]["bytes_moved"]


class Runs:
    def __init__(self, vmart, program, keep):
        self._vmart, self._program, self._keep = vmart, program, keep
        self.bytes_moved = 0
        self._lock = threading.Lock()

    def play(self, seed):
        """Returns what is wrong, as a text; empty if nothing is."""
        outputs = {}
        for how in HOW:
            done, errors, failure = self._run(seed, how)
            outputs[how] = lines_of(done.stdout, seed.options)
            if self._keep is not None:
                (self._keep / f"{seed.number}.{how}").write_text(done.stdout + errors)
            if failure:
                return f"{how}: {failure}\n{errors}"
            if done.returncode != 0 or errors:
                return f"{how}: exit {done.returncode} {errors}\n{tail(done.stdout)}"
        return "".join(difference(outputs["bare"], outputs[how], how) for how in HOW[1:])

    def _run(self, seed, how):
        command = seed.command(self._program)
        with tempfile.TemporaryDirectory(prefix="vmart-fuzz-") as folder:
            path = pathlib.Path(folder) / "control"
            migrator = Migrator(path, seed.number) if how == "moving" else None
            control = str(path) if migrator is not None else "0"
            if how != "bare":
                command = [str(self._vmart), "run", *seed.options, "--", *command]
            if migrator is not None:
                migrator.start()
            try:
                done = subprocess.run(command, env=environment(VMART_CONTROL=control, VMART_STOP=seed.stop),
                                      text=True, timeout=120, stdin=subprocess.DEVNULL, capture_output=True)
            except subprocess.TimeoutExpired as late:
                done = subprocess.CompletedProcess(command, -1, (late.stdout or b"").decode(), "it hangs")
            if migrator is not None:
                migrator.ended.set()
                migrator.join()
                with self._lock:
                    self.bytes_moved += migrator.bytes_moved
        return done, re.sub(UNIMPORTANT, "", done.stderr), migrator.failure if migrator is not None else ""


def environment(**changes):
    """Without settings of whoever runs the test. On a busy machine, it may take long to make room."""
    result = {name: value for name, value in os.environ.items()
              if not name.startswith("VMART_") and name != "LD_PRELOAD"}
    return {**result, "VMART_PRESSURE_LIMIT_MS": "20000", **changes}


def lines_of(output, options):
    """Those to compare, by the thread that printed them."""
    threads = {}
    ignored = [pattern for pattern, option, _ in DIFFERENCES if not option or option in options]
    for line in output.splitlines():
        if not any(re.search(pattern, line) for pattern in ignored):
            threads.setdefault(line.split(" ", 1)[0], []).append(line)
    return threads


def difference(bare, other, how):
    """The first line of each thread that differs, with those before it."""
    text = ""
    for thread in sorted(bare.keys() | other.keys()):
        expected, found = bare.get(thread, []), other.get(thread, [])
        if expected == found:
            continue
        at = next((i for i, pair in enumerate(zip(expected, found)) if pair[0] != pair[1]),
                  min(len(expected), len(found)))
        before = "".join(f"    {line}\n" for line in expected[max(at - 12, 0):at])
        text += (f"{how} differs in line {at} of {thread}:\n{before}  - {(expected[at:] or ['nothing'])[0]}\n"
                 f"  + {(found[at:] or ['nothing'])[0]}\n")
    return text


def tail(text):
    return "\n".join(text.splitlines()[-10:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("vmart", type=pathlib.Path)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--from", dest="first", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=pathlib.Path, help="write what each run prints there")
    asked = parser.parse_args()
    runs = Runs(asked.vmart.resolve(), asked.program.resolve(), asked.keep)
    seeds = [Seed(number) for number in range(asked.first, asked.first + asked.seeds)]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        for seed, wrong in zip(seeds, pool.map(runs.play, seeds)):
            if wrong:
                failed += 1
                print(f"{seed}: {wrong}repeat: {sys.argv[0]} {asked.vmart} {asked.program} --from {seed.number} --seeds 1",
                      flush=True)
    print(f"{len(seeds) - failed} of {len(seeds)} seeds look the same; {runs.bytes_moved >> 20} MiB moved")
    return 1 if failed or runs.bytes_moved == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
