#!/usr/bin/env python3
"""Writes the table of docs/reference/support.md from records of runs on GPUs. No row is written by hand.

    docs/support.py             writes it
    docs/support.py --check     leaves with 1 if that would change it

The records are the files of docs/measurements: run_programs_MACHINE.json of tests/gpu/run/run_programs.py has a row for each
framework, every other one a row for what it measured on its machine.
"""

import argparse
import collections
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE, RECORDS = "docs/reference/support.md", "docs/measurements"
BEGIN, END = "<!-- support:begin -->\n", "<!-- support:end -->"
HEADERS = ("what", "version", "GPUs", "driver", "CUDA", "recorded", "commits")
UNKNOWN = "not recorded"
# What the programs of run_programs.py are of, by the first word of their names: the name for people, and that of the version.
FRAMEWORKS = {
    "sample": ("NVIDIA's cuda-samples", "cuda-samples"), "torch": ("PyTorch", "torch"), "torch-tests": ("PyTorch's own tests", "torch-tests"),
    "nvcc": ("programs of this repository, by nvcc", "nvcc"), "jax": ("JAX", "jax"), "nccl-tests": ("nccl-tests", "nccl-tests"),
    "nccl": ("NCCL", "nccl"), "cupy": ("CuPy", "cupy"), "numba": ("Numba", "numba"), "triton": ("Triton", "triton"),
    "transformers": ("Transformers", "transformers"),
}
# What other records are of, by the first word of the file's name; the rest of bench/run.py's have the machine's name alone.
MEASURED = {"calibration": "`vmart calibrate`", "live": "live moves", "placement": "policies", "ranking": "ranking of policies",
            "run_timeline": "training under `vmart run` that moves", "summary": "the rows of the summary"}
CALLS = "moves, allocations, pools"


def gpus_text(names):
    counts = collections.Counter(name.removeprefix("NVIDIA ").split(" ")[0] for name in names)
    return ", ".join(f"{count} x {name}" for name, count in counts.items())


def shorter(commit):
    return f"`{commit[:8]}`" if commit else UNKNOWN


def of_programs(record):
    """A row for each framework. What became of a program is its verdict, empty if all was as without vmart."""
    groups = collections.defaultdict(list)
    for program in record["programs"]:
        groups[program["name"].partition(".")[0], program["gpu"]].append(program)
    for (name, gpus), programs in sorted(groups.items()):
        people, version = FRAMEWORKS[name]
        verdicts = collections.Counter(program["verdict"] or "as bare" for program in programs)
        yield (f"{people} under `vmart run`", record["versions"].get(version, UNKNOWN), gpus.replace("NVIDIA ", ""),
               record["versions"].get("driver", UNKNOWN), record["versions"].get("nvcc", UNKNOWN),
               ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())),
               ", ".join(sorted({shorter(program["commit"]) for program in programs})))


def of_measurements(name, record):
    kind = next((kind for kind in MEASURED if name.startswith(kind)), None)
    what = MEASURED.get(kind, CALLS)
    if "context" in record:
        context = record["context"]
        return (what, "", gpus_text(context["gpus"]), context["driver_version"], UNKNOWN, context["date"][:10], shorter(context["commit"]))
    cuda, driver = re.match(r"CUDA ([\d.]+), driver ([\d.]+);", record["machine"]).groups()
    names = re.findall(r"gpu\(\d+\) (.+?) GPU-", record["machine"])
    return what, "", gpus_text(names), driver, cuda, record["date"][:10], UNKNOWN


def rows(folder):
    made, measured = [], collections.defaultdict(list)
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if "programs" in record:
            made += of_programs(record)
        else:
            *machine, date, commit = of_measurements(path.stem, record)
            measured[tuple(machine)].append((date, commit))
    for machine, runs in sorted(measured.items()):
        commits = list(dict.fromkeys(commit for _, commit in sorted(runs)))
        made.append((*machine, f"{len(runs)}, the last on {max(runs)[0]}" if len(runs) > 1 else runs[0][0], ", ".join(commits)))
    return made


def page_of(text, made):
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    table = [HEADERS, ["---"] * len(HEADERS), *made]
    return text[:begin] + "\n".join("| " + " | ".join(row) + " |" for row in table) + "\n" + text[end:]


def main(root=ROOT):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    page = root / PAGE
    text = page.read_text(encoding="utf-8")
    new = page_of(text, rows(root / RECORDS))
    if check and new != text:
        print(f"{PAGE} is not what the records say; run docs/support.py")
        return 1
    if not check:
        page.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
