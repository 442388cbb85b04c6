#!/usr/bin/env python3
"""Writes what was tested where, from the runs that the harness recorded in docs/measurements/: the page
docs/reference/support.md, and lines of runtime/tools/vmart/support.hpp, which `vmart doctor` compares a machine with.

    docs/support.py             writes both
    docs/support.py --check     leaves with 1 if that would change one of them

A record is a file of `bench/run.py`, `bench/ranking.py`, `tests/gpu/run/run_programs.py` (by `programs_table.py --merge`),
`bench/unmodified/timeline.py` or `vmart calibrate --json`.
"""

import argparse
import collections
import dataclasses
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/gpu/run"))
# After the path is known.
from programs_table import KINDS, OF_MOVES, find_kind, is_as_bare, is_evidence  # noqa: E402

SAMPLES, PAGE = ROOT / "docs/measurements", ROOT / "docs/reference/support.md"
HEADER = ROOT / "runtime/tools/vmart/support.hpp"
BEGIN, END = "// recorded:begin\n", "// recorded:end\n"
CALIBRATION = re.compile(r"CUDA ([\d.]+), driver ([\d.]+); ")
# What the benchmarks of a command run; the first whose words are in the command.
BENCHMARKS = (("--summary", "one benchmark a row of the [summary](../results/summary.md)"), ("--live", "moves while kernels run"),
              ("--placement", "placement by policies"), ("bench/run.py", "allocations and moves"),
              ("ranking.py", "programs with each policy"), ("timeline.py", "a PyTorch training under `vmart run`"))
UNKNOWN, OF_FILE = "not recorded", " (of all runs in the record)"
COLUMNS = ("driver", "CUDA", "GPUs", "what ran", "version", "result", "vmart", "recorded in")


@dataclasses.dataclass(frozen=True)
class Machine:
    driver: str
    gpu: str
    gpus: int
    system: str = ""  # Such as x86_64.


@dataclasses.dataclass
class Row:
    machine: Machine
    what: str
    version: str = ""
    good: int = 0  # Of what was run: how many as they should be.
    runs: int = 0
    unit: str = "benchmarks"
    judged: bool = True  # Otherwise the record has only what ended.
    verdicts: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # On moves, not on the output.
    commits: set = dataclasses.field(default_factory=set)
    records: set = dataclasses.field(default_factory=set)


def architecture(system):
    found = re.search(r"x86_64|aarch64", system)
    return found[0] if found else ""


def machine_of_names(driver, names, system=""):
    """Records of several models of GPU would need a row for each; there are none."""
    models = set(names)
    if len(models) != 1:
        raise LookupError(f"a record of {names}")
    return Machine(driver, models.pop(), len(names), architecture(system))


def machine_of_text(driver, text, system=""):
    """Of "2 x NVIDIA H200"."""
    count, _, model = text.partition(" x ")
    return Machine(driver, model, int(count), architecture(system))


def of_programs(document):
    """A row for each framework, from programs that ran bare and under `vmart run`. What a result does not say of itself, the
    document says of the runs that were merged in it."""
    known = document["versions"]
    for result in filter(is_evidence, document["programs"]):
        if not (kind := find_kind(result["name"])):
            continue
        version = result.get("version") or (known[kind.version] + OF_FILE if kind.version in known else UNKNOWN)
        machine = machine_of_text(result.get("driver_version") or known.get("driver", UNKNOWN), result["gpu"], result.get("system", ""))
        yield Row(machine, f"{kind.label} under `vmart run`", version, int(is_as_bare(result)), 1, "programs as without vmart",
                  verdicts=collections.Counter([result["verdict"]] if result["verdict"] in OF_MOVES else []), commits={result["commit"]})


def of_context(document):
    context = document["context"]
    if context["driver"] != "cuda":
        raise LookupError(f"a record of {context['driver']}")
    what = next(text for word, text in BENCHMARKS if word in context["command"])
    good = next(count for count in (document.get("results"), document.get("samples"), document.get("moves")) if count is not None)
    unit = "moves" if "moves" in document else "runs" if "samples" in document else "benchmarks"
    # What there was no time for did not run.
    failed = [one for one in document.get("failed", ()) if not isinstance(one, dict) or "want of time" not in one.get("reason", "")]
    version = context.get("versions", {}).get("torch", UNKNOWN) if "PyTorch" in what else ""
    machine = machine_of_names(context["driver_version"], context["gpus"], context.get("system", ""))
    yield Row(machine, what, version, len(good), len(good) + len(failed), unit, "failed" in document,
              commits={context["commit"][:8]})


def of_calibration(document):
    _, driver = CALIBRATION.match(document["machine"]).groups()
    models = re.findall(r"gpu\(\d+\) (.*?) GPU-", document["machine"])
    yield Row(machine_of_names(driver, models), "`vmart calibrate`", good=1, runs=1, unit="calibrations", judged=False)


def rows_of(document):
    if "programs" in document:
        return of_programs(document)
    return of_context(document) if "context" in document else of_calibration(document)


def read_records(folder):
    """By their names."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def rows_of_all(records):
    """By machine, what ran, and its version. Machines whose record names no system count with others like them."""
    rows = {}
    for name, document in records.items():
        for row in rows_of(document):
            key = (row.machine.driver, row.machine.gpu, row.machine.gpus, row.what, row.version)
            total = rows.setdefault(key, Row(row.machine, row.what, row.version, unit=row.unit, judged=row.judged))
            total.good, total.runs = total.good + row.good, total.runs + row.runs
            total.verdicts += row.verdicts
            total.commits |= row.commits - {""}
            total.records.add(name)
    return [rows[key] for key in sorted(rows)]


def toolkits(records):
    """The version of CUDA that each driver is for, as calibrations and newer records say."""
    found = {}
    for document in records.values():
        if "machine" in document and (known := CALIBRATION.match(document["machine"])):
            found[known[2]] = known[1]
        for known in (document.get("context", {}), *document.get("programs", ())):
            if known.get("cuda_version"):
                found[known["driver_version"]] = known["cuda_version"]
    return found


def limits():
    """The oldest driver that vmart takes, and the newest one whose calls `vmart run` knows, as their sources say."""
    source = (ROOT / "runtime/driver/cuda_api.hpp").read_text(encoding="utf-8")
    oldest, version = re.search(r"driver: (\d+), which introduced CUDA (\d+\.\d+)", source).groups()
    calls = (ROOT / "tests/run/driver_calls.txt").read_text(encoding="utf-8")
    newest = max(re.findall(r"^(\d+\.\d+) \w+:", calls, re.MULTILINE), key=lambda text: tuple(map(int, text.split("."))))
    return oldest, version, newest


def listed(names):
    return ", ".join(f"`{name}`" for name in sorted(names))


def counted(row):
    if row.judged:
        return f"{row.good} of {row.runs} {row.unit}"
    return f"{row.runs} {row.unit if row.runs > 1 else row.unit.removesuffix('s')}"


def cells(row, cuda):
    commits = listed(row.commits) if len(row.commits) <= 3 else f"{len(row.commits)} commits"
    gpus = f"{row.machine.gpus} x {row.machine.gpu}"
    of_moves = "".join(f"; {verdict}: {count}" for verdict, count in sorted(row.verdicts.items()))
    return (row.machine.driver, cuda.get(row.machine.driver, UNKNOWN), gpus, row.what, row.version,
            counted(row) + of_moves, commits, listed(row.records))


def page(rows, cuda):
    oldest, version, newest = limits()
    drivers = " and ".join(sorted({row.machine.driver for row in rows} - {UNKNOWN}))
    table = "\n".join("| " + " | ".join(line) + " |" for line in (COLUMNS, ["---"] * len(COLUMNS), *(cells(row, cuda) for row in rows)))
    return f"""# What was tested where

`docs/support.py` makes this page, and what `vmart doctor` knows, from the runs that the harness recorded in `docs/measurements/`. No row
is written by hand.

## Three classes

`vmart doctor` says which class a machine is in, and why:

| class | which machines | what that means |
| --- | --- | --- |
| tested | the driver, the model of GPU, and as many GPUs or more, are in a row below in which nothing failed | It ran there |
| expected | any other with driver {oldest} (CUDA {version}) or newer, whose GPUs can map virtual memory | It should run: vmart asks the driver for each call that it needs. Nobody has recorded a run. `vmart run` knows the calls of drivers up to CUDA {newest}; with a newer one, a call that it does not know stops moves ([unmodified programs](../guide/run.md)) |
| refused | a driver before {oldest}; GPUs without virtual memory management; a system other than Linux | Opening a runtime fails with `unsupported` or `no_driver`, and the reason. Simulated machines work |

For frameworks, a version that is in a row was tested; others are expected. `vmart run` needs nothing of them: it sees the driver's calls.

## Recorded runs

{len(rows)} rows, of driver {drivers}.

{table}

A result of "programs as without vmart" compares what a program prints, or how its tests end, with memory moving at random: [what has run](../guide/run.md#what-has-run). What it counts as failed is there, too. Beside
it, "nothing moved" and "a move is stuck" (it took more than a minute) count programs of which that was so. Benchmarks that there was no time for are not counted.

CUDA is the version that the driver is for, not that of a toolkit. A version "{OF_FILE.strip(' ()')}" stands once in a record
into which several runs were merged, and its driver, too; newer records have both with each program.

## Add a row

On the machine, with a build of vmart that is committed:

<!-- not run: needs GPUs -->
```sh
python3 bench/run.py --summary docs/measurements/summary_MACHINE.json                 # the library, in some minutes
build/release/runtime/tools/vmart calibrate --json --no-keep > docs/measurements/calibration_MACHINE.json
tests/gpu/run/build_programs.sh build/release/programs                                # programs that are compiled
python3 tests/gpu/run/run_programs.py build/release --out programs.json               # frameworks that are installed
python3 tests/gpu/run/programs_table.py programs.json --merge docs/measurements/run_programs_MACHINE.json
python3 docs/support.py
```

MACHINE is such as `h200x2`. Each result says driver, CUDA, GPUs and version by itself. Commit the files, this page and `support.hpp`; a test compares
them. A driver or GPU without a row becomes tested with the first record that names it.
"""


def lines_of_header(rows):
    """One line for each driver, model and number of GPUs, of what ran as it should. Of frameworks, something has to have moved."""
    machines = collections.defaultdict(list)
    for row in rows:
        if row.machine.driver != UNKNOWN and row.good == row.runs:
            machines[row.machine.driver, row.machine.gpu, row.machine.gpus].append(row)
    lines = []
    for (driver, gpu, gpus), own in sorted(machines.items()):
        frameworks = [f"{kind.label} {row.version.removesuffix(OF_FILE)}" for kind in KINDS for row in own
                      if row.what == f"{kind.label} under `vmart run`" and row.version != UNKNOWN
                      and row.verdicts["nothing moved"] < row.runs]
        lines.append(f'    {{"{driver}", "{gpu}", {gpus}, {len(own)}, "{"; ".join(frameworks)}"}},')
    major, minor = map(int, limits()[2].split("."))
    return "".join(line + "\n" for line in (*lines, "};", f"constexpr int newest_known_cuda = {1000 * major + 10 * minor};"))


def with_lines(text, lines):
    """`text` with these lines between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        raise LookupError(f"{HEADER.relative_to(ROOT)} has no lines {BEGIN.strip()} and {END.strip()}")
    return before + BEGIN + lines + END + after


def written(folder=SAMPLES):
    records = read_records(folder)
    rows = rows_of_all(records)
    return {PAGE: page(rows, toolkits(records)), HEADER: with_lines(HEADER.read_text(encoding="utf-8"), lines_of_header(rows))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check, changed = parser.parse_args().check, False
    for path, text in written().items():
        if check:
            if path.read_text(encoding="utf-8") != text:
                print(f"{path.relative_to(ROOT)} is not what docs/support.py writes")
                changed = True
        else:
            path.write_text(text, encoding="utf-8")
    return int(changed)


if __name__ == "__main__":
    sys.exit(main())
