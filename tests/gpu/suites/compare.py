"""Runs the tests of another project bare and with vmart, and compares: what the runners beside it share.

A test counts against vmart if it passes bare and not with vmart. Those that a runner explains do not count. Nothing
here, and no plugin, changes a file of the other project.
"""

import argparse
import concurrent.futures
import dataclasses
import fnmatch
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

EXIT_SKIPPED = 77
HERE = pathlib.Path(__file__).resolve().parent
MODES = ("bare", "vmart")


@dataclasses.dataclass
class Part:
    """Tests that run together. `gpus` is how many one run needs; with one each and two there, both modes run at once."""

    tests: list[str]  # Arguments of pytest.
    workers: int
    gpus: int = 2
    timeout_s: int = 300


@dataclasses.dataclass
class Suite:
    name: str
    folder: pathlib.Path  # pytest's working directory.
    parts: list[Part]
    plugins: dict[str, list[str]]  # Of each mode.
    test_timeout_s: int = 120
    environment: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)  # Of each mode.
    python_path: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    explained: dict[str, str] = dataclasses.field(default_factory=dict)  # Pattern of tests: why.
    share_needed: float = 1.0  # Of those that pass bare and are not explained.
    passed_needed: int = 1


def arguments(documentation, **more):
    """The path of the clone and what all runners take. `more`: help texts of further options with a value."""
    parser = argparse.ArgumentParser(description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=pathlib.Path, help="a clone of the other project, or what it has of its tests")
    parser.add_argument("--logs", type=pathlib.Path, help="keep the outputs of pytest in this folder")
    parser.add_argument("--only", choices=MODES, help="one mode, without a comparison")
    parser.add_argument("--workers", type=int, help="processes at a time")
    for option, text in more.items():
        parser.add_argument(f"--{option.replace('_', '-')}", help=text)
    given = parser.parse_args()
    given.clone = given.clone.resolve()
    return given


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(EXIT_SKIPPED)


def require(modules, files, gpus):
    """Leaves with 77 without them."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            skip(f"Python has no {module}")
    for file in files:
        if not file.exists():
            skip(f"{file} does not exist")
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False) if _has_smi() else None
    found = listed.stdout.count("GPU ") if listed else 0
    if found < gpus:
        skip(f"needs {gpus} GPUs, has {found}")
    return found


def _has_smi():
    return any(os.access(os.path.join(folder, "nvidia-smi"), os.X_OK) for folder in os.get_exec_path())


class Results:
    """Of one mode."""

    def __init__(self, lines):
        self.outcomes, self.errors, self.used = {}, {}, 0
        worst = ("passed", "skipped", "failed")
        for line in lines:
            self.used += line.get("used", 0)
            if "test" not in line:
                continue
            test, before = line["test"], self.outcomes.get(line["test"], "passed")
            self.outcomes[test] = max(before, line["outcome"], key=worst.index)
            if line["error"]:
                self.errors[test] = line["error"]

    def count(self, outcome):
        return sum(each == outcome for each in self.outcomes.values())

    def those(self, outcome):
        return {test for test, each in self.outcomes.items() if each == outcome}


def _command(suite, part, mode):
    plugins = ["record_results", *suite.plugins.get(mode, [])]
    return [
        sys.executable, "-B", "-m", "pytest", "-q", "-rN", "--tb=short", "-p", "no:cacheprovider", f"--rootdir={suite.folder}",
        *(word for plugin in plugins for word in ("-p", plugin)),
        # Workers: a crash, and the end of a process that hangs, costs one test.
        "-n", str(part.workers), "--max-worker-restart=100000", f"--timeout={suite.test_timeout_s}", "--timeout-method=thread",
        *part.tests,
    ]  # fmt: skip


def _run(suite, part, mode, gpu, logs):
    """The lines of results. A run past its time limit is ended, and so are its workers."""
    index = suite.parts.index(part)
    results, log = logs / f"{suite.name}.{mode}.{index}.jsonl", logs / f"{suite.name}.{mode}.{index}.log"
    results.unlink(missing_ok=True)
    environment = {**os.environ, **suite.environment.get(mode, {}), "SUITE_RESULTS": str(results)}
    paths = [*suite.python_path.get(mode, []), str(HERE / "plugins"), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    if gpu is not None:
        environment["CUDA_VISIBLE_DEVICES"] = str(gpu)
    begin = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(_command(suite, part, mode), cwd=suite.folder, env=environment, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            process.wait(part.timeout_s)
            note = f"exit status {process.returncode}"
        except subprocess.TimeoutExpired:
            note = f"ended after {part.timeout_s} s"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
    print(f"{suite.name}, {mode}: {' '.join(part.tests)[:100]}: {time.monotonic() - begin:.0f} s, {note}", flush=True)
    if process.returncode not in (0, 1):
        print("".join(f"    {line}\n" for line in log.read_text(errors="replace").splitlines()[-15:]), flush=True)
    lines = results.read_text().splitlines() if results.exists() else []
    return [json.loads(line) for line in lines]


def _run_all(suite, modes, gpus, logs):
    lines = {mode: [] for mode in modes}
    for part in suite.parts:
        at_once = part.gpus == 1 and gpus > 1 and len(modes) > 1
        with concurrent.futures.ThreadPoolExecutor(max_workers=len(modes) if at_once else 1) as pool:
            runs = {
                mode: pool.submit(_run, suite, part, mode, index if part.gpus == 1 and gpus > 1 else None, logs)
                for index, mode in enumerate(modes)
            }
            for mode, run in runs.items():
                lines[mode] += run.result()
    return {mode: Results(found) for mode, found in lines.items()}


def _reason(suite, test):
    # Not `fnmatch` alone: names have brackets.
    return next((why for pattern, why in suite.explained.items()
                 if fnmatch.fnmatchcase(test.replace("[", "("), pattern.replace("[", "("))), None)  # fmt: skip


def _print_table(suite, results):
    print(f"\n{suite.name:24}{'passed':>8}{'failed':>8}{'skipped':>8}")
    for mode, result in results.items():
        print(f"{mode:24}" + "".join(f"{result.count(outcome):8}" for outcome in ("passed", "failed", "skipped")))


def _verdict(suite, bare, ours):
    """Whether vmart passes what it should."""
    passed, worse = bare.those("passed"), []
    for test in sorted(passed - ours.those("passed")):
        why = _reason(suite, test)
        error = ours.errors.get(test) or f"({ours.outcomes.get(test, 'did not run')})"
        print(f"  {'explained' if why else 'WORSE'}: {test}\n      {error}" + (f"\n      why: {why}" if why else ""))
        worse += [] if why else [test]
    for test in sorted(bare.those("failed")):
        print(f"  fails bare: {test} ({ours.outcomes.get(test, 'did not run')} with vmart)\n      {bare.errors.get(test, '')}")
    for test in sorted(passed & ours.those("passed")):
        if _reason(suite, test):
            print(f"  passes although it is explained: {test}")
    applies = {test for test in passed if not _reason(suite, test)}
    good = len(applies & ours.those("passed"))
    print(f"{suite.name}: {good} of {len(applies)} tests that apply pass with vmart, "
          f"which was asked for memory {ours.used} times")
    if ours.used == 0:
        print("  vmart was never asked for memory")
    enough = good >= max(suite.passed_needed, suite.share_needed * len(applies))
    return enough and ours.used > 0


def run(suite, given, gpus):
    """The exit status of a runner."""
    modes = (given.only,) if given.only else MODES
    with tempfile.TemporaryDirectory() as temporary:
        logs = given.logs.resolve() if given.logs else pathlib.Path(temporary)
        logs.mkdir(parents=True, exist_ok=True)
        results = _run_all(suite, modes, gpus, logs)
    _print_table(suite, results)
    if len(modes) == 1:
        for test, error in results[modes[0]].errors.items():
            print(f"  {test}\n      {error}")
        return 0
    return 0 if _verdict(suite, results["bare"], results["vmart"]) else 1
