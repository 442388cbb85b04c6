#!/usr/bin/env python3
"""mutate.py: breaks the runtime in one place at a time, and sees whether a test notices.

  tests/mutation/mutate.py [--build DIR] [--jobs N] [--only TEXT]... [--list] [--fresh]

A list for each layer, such as memory.toml, has a section for each source, and a line for each mutant, `name = ['text of the source', 'what stands there instead']`. White space does not
matter, and the text must occur exactly once: an edit that removes it ends the run with an error.
survivors.toml explains each mutant that no test can kill, or that none is worth killing.

The build folder must be configured; the run builds the tests of TESTS in it. Each mutant is one source,
compiled without optimization to an object of its own, and linked before the layers' archives. It
is killed by the first test that fails, crashes or exceeds its time limit.

Exit codes: 0: only explained mutants survived; 1: others did, or a mutant did not compile; 2: the
lists do not fit the sources, or the tests fail without a mutant.

Results are kept in DIR/mutation/results.jsonl, so that an interrupted run goes on where it was; a
rebuilt test or an edited mutant runs again.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LISTS = Path(__file__).resolve().parent

# Test programs for the mutants of a layer, the quickest first, each with its folder in the build.
TESTS = {
    "memory": ["unit/memory/memory_test", "unit/migrate/migrate_test", "unit/runtime/runtime_test",
               "unit/cpu_faults/cpu_faults_test", "faults/faults_test"],
    "migrate": ["unit/migrate/migrate_test", "unit/runtime/runtime_test",
                "unit/cpu_faults/cpu_faults_test", "faults/faults_test", "twin/twin_test"],
    "pools": ["unit/pools/pools_test", "unit/pools/pool_model_test"],
    "backings": ["unit/backings/backings_test"],
    "cpu_faults": ["unit/cpu_faults/cpu_faults_test"],
    "sharing": ["unit/sharing/sharing_test"],
    "scheduling": ["unit/scheduling/scheduling_test", "unit/runtime/runtime_control_test"],
    "placement": ["unit/placement/placement_test"],
    "interpose": ["run/run_work_test"],
}
# Programs that a test starts are linked with the mutant as well. The test finds each by a variable
# that is called like it, such as SHARE_PEER.
PEERS = {"unit/sharing/sharing_test": ["unit/sharing/share_peer"]}
# Programs that would take minutes run a part of their tests.
FILTERS = {
    "faults_test": "Faults.AnySingle*:Delays.*:Poison.*",
    "twin_test": "Twin.*:TwinFaults.AnyCall*",
}
COMPILE_LIMIT_S = 600
TEST_LIMIT_S = 60
"""And TEST_SLACK times what the program takes without a mutant."""
TEST_SLACK = 5
ALL_SKIPPED = 77


class ListError(Exception):
    """The lists of mutants do not fit the sources."""


@dataclass(frozen=True)
class Mutant:
    layer: str
    source: str
    label: str
    find: str
    replacement: str
    first: str
    """Filter of the tests that are likely to kill it; the whole programs come after."""

    @property
    def name(self):
        return f"{self.layer}/{self.source}/{self.label}"

    @property
    def path(self):
        """In the folder of the layer or in one below it."""
        found = list((ROOT / "runtime" / self.layer).rglob(f"{self.source}.cpp"))
        if len(found) != 1:
            raise ListError(f"{self.name}: {len(found)} files are {self.source}.cpp, one must be")
        return found[0]

    def mutated(self):
        """The text of the broken source. Throws ListError unless it is found exactly once."""
        text = self.path.read_text(encoding="utf-8")
        hits = list(pattern_of(self.find).finditer(text))
        if len(hits) != 1:
            raise ListError(f"{self.name}: {len(hits)} places in {self.path.relative_to(ROOT)} "
                            f"match, one must: {self.find}")
        begin, end = hits[0].span()
        nothing = ";" if self.find.endswith(";") else ""  # May be all that an `if` is followed by.
        return (f'#line 1 "{self.path}"\n' + text[:begin] + (self.replacement or nothing)
                + text[end:])


@dataclass(frozen=True)
class Result:
    name: str
    key: str
    """Of all that the result depends on."""
    outcome: str
    """killed, survived or not compiled."""
    by: str
    seconds: float


def pattern_of(text):
    """Matches the text however it is broken into lines."""
    tokens = re.findall(r"\w+|[^\w\s]", text)
    pattern = ""
    for before, token in zip([""] + tokens, tokens):
        words = before[-1:].isalnum() and token[0].isalnum()
        pattern += (r"\s+" if words else r"\s*") + re.escape(token)
    return re.compile(pattern.removeprefix(r"\s*"))


def read_list(name):
    with open(LISTS / name, "rb") as file:
        return tomllib.load(file)


def read_mutants():
    mutants = []
    for layer in TESTS:
        for source, lines in read_list(f"{layer}.toml").items():
            first = lines.pop("first", "")
            for label, (find, replacement) in lines.items():
                mutants.append(Mutant(layer, source, label, find, replacement, first))
    return mutants


def read_survivors():
    """Explanations by name."""
    return {f"{layer}/{source}/{label}": why
            for layer, sources in read_list("survivors.toml").items()
            for source, lines in sources.items() for label, why in lines.items()}


def check_lists(mutants, survivors):
    problems = [f"survivors.toml: there is no mutant {name}"
                for name in survivors.keys() - {mutant.name for mutant in mutants}]
    for mutant in mutants:
        try:
            mutant.mutated()
        except (ListError, OSError) as error:
            problems.append(str(error))
    if problems:
        raise ListError("\n".join(problems))


def run_bounded(command, folder, limit_s):
    """Output and exit code; None for one that had to be ended."""
    environment = {name: value for name, value in os.environ.items() if name != "VMART_LONG"}
    environment["VMART_SEED"] = "1"
    for peer in [Path(folder) / Path(each).name for peers in PEERS.values() for each in peers]:
        if peer.exists():
            environment[peer.name.upper()] = str(peer)
    with tempfile.TemporaryFile(mode="w+", errors="replace") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return output.read(), code


def last_test(output):
    """The test that failed first or, where the program ended in the middle, the one that ran."""
    failed = re.search(r"^\[  FAILED  \] (\S+)", output, re.MULTILINE)
    ran = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
    return failed[1].rstrip(",") if failed else ran[-1] if ran else "the program"


def sources_of_batch(file):
    """Those that the build compiles together, if the file is a batch."""
    if file.parent.name != "Unity" or not file.exists():
        return []
    return re.findall(r'^#include "(.*)"$', file.read_text(encoding="utf-8"), re.MULTILINE)


class Build:
    """A configured build folder, and how it compiles and links."""

    def __init__(self, folder):
        self.folder = folder.resolve()
        self.compile_commands = {}
        self.link_commands = {}
        self.digests = {}
        self.limits_s = {}
        self.measuring = threading.Lock()

    def program(self, test):
        return self.folder / "tests" / test

    def prepare(self, tests):
        """Builds the tests and reads how they are made."""
        tests = tests + [peer for test in tests for peer in PEERS.get(test, [])]
        targets = [Path(test).name for test in tests]
        subprocess.run(["ninja", "-C", str(self.folder), *targets], check=True,
                       stdout=subprocess.DEVNULL)
        commands = json.loads((self.folder / "compile_commands.json").read_text())
        for entry in commands:
            command = shlex.split(entry["command"])
            self.compile_commands[entry["file"]] = command
            for source in sources_of_batch(Path(entry["file"])):
                self.compile_commands[source] = [source if word == entry["file"] else word
                                                 for word in command]
        for test in tests:
            ninja = subprocess.run(["ninja", "-C", str(self.folder), "-t", "commands", "-s",
                                    f"tests/{test}"], check=True, capture_output=True, text=True)
            self.link_commands[test] = next(part for part in ninja.stdout.split(" && ")
                                            if f" -o tests/{test} " in part)
            self.digests[test] = hashlib.sha256(self.program(test).read_bytes()).hexdigest()

    def limit_s(self, test):
        """The program's, which has passed without a mutant before the first one is tried on it."""
        with self.measuring:
            if test not in self.limits_s:
                self.limits_s[test] = TEST_LIMIT_S + TEST_SLACK * self.measure(test)
            return self.limits_s[test]

    def measure(self, test):
        """Seconds that the program takes, linked and run as with a mutant."""
        with self.scratch() as folder:
            program, message = self.link(test, None, folder)
            if program is None:
                raise ListError(f"{test} does not link without a mutant: {message}")
            begin = time.monotonic()
            output, code = run_bounded([program, *arguments_of(test, "")], folder, 1800)
            if code != 0:
                raise ListError(f"{test} fails without a mutant: {last_test(output)}")
            seconds = time.monotonic() - begin
        print(f"{test} passes without a mutant in {seconds:.0f} s", flush=True)
        return seconds

    def scratch(self):
        """A folder as deep in the build as those of tests, since programs look for data beside."""
        return tempfile.TemporaryDirectory(prefix="mutant-", dir=self.folder / "tests")

    def compile(self, mutant, folder):
        """The object, or None and what the compiler says."""
        source = Path(folder) / mutant.path.name
        source.write_text(mutant.mutated(), encoding="utf-8")
        target = source.with_suffix(".o")
        command = self.compile_commands[str(mutant.path)]
        if Path(command[0]).name == "ccache":  # It would only fill its folder.
            command = command[1:]
        command = [str(source) if word == str(mutant.path) else word for word in command
                   if not re.fullmatch(r"-O\d|-W.*", word)]
        command[command.index("-o") + 1] = str(target)
        output, code = run_bounded([*command, "-O0", "-w"], self.folder, COMPILE_LIMIT_S)
        return (target, "") if code == 0 else (None, output)

    def link(self, test, mutated, folder):
        """The program, and those that it starts, or None and what the linker says."""
        for peer in PEERS.get(test, []):
            program, output = self.link_one(peer, mutated, folder)
            if program is None:
                return None, output
        return self.link_one(test, mutated, folder)

    def link_one(self, test, mutated, folder):
        program = Path(folder) / Path(test).name
        words = shlex.split(self.link_commands[test])
        words[words.index("-o") + 1] = str(program)
        # The archive's own object of the source is not needed any more, and so not linked, unless it
        # is a batch that has other sources as well. Then the first definition counts.
        first = next(i for i, word in enumerate(words) if word.endswith((".o", ".a")))
        words[first:first] = [] if mutated is None else ["-Wl,-z,muldefs", str(mutated)]
        output, code = run_bounded(words, self.folder, COMPILE_LIMIT_S)
        return (program, "") if code == 0 else (None, output)


def arguments_of(test, first):
    chosen = first or FILTERS.get(Path(test).name, "*")
    return [f"--gtest_filter={chosen}", "--gtest_fail_fast"]


def try_mutant(build, mutant, key):
    begin = time.monotonic()
    outcome, by = judge(build, mutant)
    return Result(mutant.name, key, outcome, by, round(time.monotonic() - begin, 1))


def judge(build, mutant):
    """What became of it, and by what."""
    with build.scratch() as folder:
        mutated, message = build.compile(mutant, folder)
        if mutated is None:
            return "not compiled", message[:2000]
        for test in TESTS[mutant.layer]:
            program, message = build.link(test, mutated, folder)
            if program is None:
                return "not compiled", message[:2000]
            own = test == TESTS[mutant.layer][0]
            for first in ([mutant.first] if own and mutant.first else []) + [""]:
                if by := killer(program, arguments_of(test, first), build.limit_s(test)):
                    return "killed", by
            program.unlink()
    return "survived", ""


def killer(program, arguments, limit_s):
    """The test that failed, twice, so that none did by chance; nothing where none did."""
    for _ in range(2):
        output, code = run_bounded([program, *arguments], program.parent, limit_s)
        if code is None:
            return last_test(output) + " (time limit)"
        if code in (0, ALL_SKIPPED):
            return ""
    return last_test(output) + (" (signal)" if code < 0 else "")


class Results:
    """Those of earlier runs and of this one, in a file that only grows."""

    def __init__(self, path, fresh):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.known = {}
        if fresh:
            path.unlink(missing_ok=True)
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                result = Result(**json.loads(line))
                if result.outcome != "not compiled":  # A compiler may have been ended from outside.
                    self.known[result.key] = result

    def add(self, result):
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(vars(result)) + "\n")
        self.known[result.key] = result


def key_of(build, mutant):
    parts = [mutant.name, mutant.mutated()] + [
        build.digests[program] for test in TESTS[mutant.layer]
        for program in [test, *PEERS.get(test, [])]]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def run_all(build, mutants, results, jobs):
    keys = {mutant.name: key_of(build, mutant) for mutant in mutants}
    left = [mutant for mutant in mutants if keys[mutant.name] not in results.known]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(try_mutant, build, mutant, keys[mutant.name]) for mutant in left]
        try:
            for number, future in enumerate(concurrent.futures.as_completed(running), 1):
                result = future.result()
                results.add(result)
                print(f"[{number}/{len(left)}] {result.name}: {result.outcome}"
                      f"{' by ' + result.by if result.by else ''} in {result.seconds} s", flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [results.known[keys[mutant.name]] for mutant in mutants]


def report(results, survivors):
    """Prints the counts and what is wrong; true if nothing is."""
    of = {outcome: [result for result in results if result.outcome == outcome]
          for outcome in ("killed", "survived", "not compiled")}
    unexplained = [result for result in of["survived"] if result.name not in survivors]
    print(f"{len(results)} mutants: {len(of['killed'])} killed, {len(of['survived'])} survived "
          f"({len(unexplained)} of them unexplained), {len(of['not compiled'])} did not compile")
    for result in of["killed"]:
        if result.name in survivors:
            print(f"{result.name} is explained in survivors.toml, but {result.by} kills it")
    for result in of["not compiled"]:
        print(f"{result.name} does not compile:\n{result.by}")
    for result in unexplained:
        print(f"{result.name} survives: write a test that kills it, or explain it in survivors.toml")
    return not unexplained and not of["not compiled"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", action="append", default=[], metavar="TEXT",
                        help="those whose name contains the text")
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    parser.add_argument("--fresh", action="store_true", help="forget the results of earlier runs")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    try:
        mutants, survivors = read_mutants(), read_survivors()
        check_lists(mutants, survivors)
        chosen = [mutant for mutant in mutants
                  if not arguments.only or any(text in mutant.name for text in arguments.only)]
        if arguments.list:
            for mutant in chosen:
                print(f"{mutant.name}: {mutant.find}  ->  {mutant.replacement or '(nothing)'}")
            print(f"{len(chosen)} mutants")
            return 0
        build = Build(arguments.build)
        layers = {mutant.layer for mutant in chosen}
        build.prepare(list(dict.fromkeys(test for layer in TESTS if layer in layers
                                         for test in TESTS[layer])))
        results = Results(build.folder / "mutation" / "results.jsonl", arguments.fresh)
        return 0 if report(run_all(build, chosen, results, arguments.jobs), survivors) else 1
    except ListError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
