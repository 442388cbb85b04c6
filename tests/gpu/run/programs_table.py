#!/usr/bin/env python3
"""The table of the programs that have run, from what run_programs.py --out wrote.

    programs_table.py FILE.json... [--version NAME=VERSION]... [--merge FILE.json]
    programs_table.py FILE.json... --page docs/guide/run.md [--check]

Prints Markdown: a row for each kind of program, then those that were not as bare. If a program is in several
files, the last one counts. --version adds what the files do not know: those of cuda-samples, nccl-tests,
cupy-tests, torch-tests. --merge writes one file without details, which the page is made from:
docs/measurements/run_programs_*.json. --page writes the table between the lines `<!-- programs:begin -->`
and `<!-- programs:end -->`; with --check, leaves with 1 if that would change the page.

The commit of vmart and the GPUs of the results stand below the table if they are the same for all. Otherwise
they are columns, with the number of programs for which each counts if that is not all of the row. Results that name
none leave the cell empty.
"""

import argparse
import collections
import json
import pathlib
import sys

Kind = collections.namedtuple("Kind", "prefix label version compared")
OUTPUT, TESTS = "what they print", "how each test ends"
KINDS = (
    Kind("nvcc", "CUDA C++, nvcc", "nvcc", OUTPUT),
    Kind("torch", "PyTorch", "torch", OUTPUT),
    Kind("triton", "Triton", "triton", OUTPUT),
    Kind("cupy", "CuPy", "cupy", OUTPUT),
    Kind("jax", "JAX", "jax", OUTPUT),
    Kind("numba", "Numba", "numba", OUTPUT),
    Kind("transformers", "transformers", "transformers", OUTPUT),
    Kind("nccl", "NCCL", "nccl", OUTPUT),
    Kind("sample", "NVIDIA's cuda-samples", "cuda-samples", "what they print, without times"),
    Kind("nccl-tests", "NVIDIA's nccl-tests", "nccl-tests", "errors of each size"),
    Kind("cupy-tests", "CuPy's tests", "cupy-tests", TESTS),
    Kind("torch-tests", "PyTorch's tests", "torch-tests", TESTS),
)
HEAD = ("kind", "version", "programs", "compared", "as bare", "moves", "GB moved")
SOURCES = {"commit": "commit", "gpu": "GPU"}  # What a result was measured with, and the heading of that.
KEPT = ("name", "verdict", "runs", "seconds", "compared", "moves", "bytes", "operations", "failed", *SOURCES,
        "version", "driver_version", "cuda_version", "system", "date")
NAMED = 8  # Of more programs, only the number is shown.
PLAYED_S = 60  # What run_programs.py is asked for, see docs/results; a program may end before.
OF_MOVES = ("nothing moved", "a move is stuck")  # Verdicts that say nothing about the output.
BEGIN, END = "<!-- programs:begin -->\n", "<!-- programs:end -->"


def merged(documents, extra_versions=()):
    """One document, in which the last result of each program and the last versions count."""
    results, known = {}, {}
    for document in documents:
        known.update(document.get("versions", {}))
        results.update({one["name"]: {key: one[key] for key in KEPT if key in one}
                        for one in document["programs"]})
    return {"versions": {**known, **dict(extra_versions)},
            "seconds": min(document["seconds"] for document in documents),
            "programs": [results[name] for name in sorted(results)]}


def find_kind(name):
    """None for a program that stands in no table."""
    return next((kind for kind in KINDS if kind.prefix == name.partition(".")[0]), None)


def kind_of(name):
    if kind := find_kind(name):
        return kind
    raise ValueError(f"{name}: no such kind in KINDS of {pathlib.Path(__file__).name}")


def is_evidence(result):
    """A program that fails without vmart shows nothing."""
    return not result["verdict"].startswith("bare: ") and result["verdict"] != "hangs bare"


def is_as_bare(result):
    """Also if its moves were not as they should be."""
    return result["verdict"] in ("", *OF_MOVES)


def row(kind, results):
    judged = [one for one in results if is_evidence(one)]
    same = sum(is_as_bare(one) for one in judged)
    compared = kind.compared
    if kind.compared == TESTS and all("compared" in one for one in judged):
        compared = f"{kind.compared} of {number(sum(one['compared'] for one in judged))}"
    return (f"{names(results)} | {compared} | {same} of {len(judged)} | "
            f"{number(sum(one['moves'] for one in judged))} | "
            f"{size(sum(one['bytes'] for one in judged) / 1e9)} |")


def names(results):
    if len(results) > NAMED:
        return str(len(results))
    return ", ".join(sorted(one["name"].partition(".")[2] for one in results))


def size(gigabytes):
    return number(round(gigabytes)) if gigabytes >= 100 else f"{gigabytes:.2g}"


def number(count):
    return f"{count:,}".replace(",", " ")


def sources(results, key):
    """Each value of the results, with the number of those that have it unless all do."""
    counts = collections.Counter(one.get(key, "") for one in results)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{value} ({count} of {len(results)})" for value, count in counts.items() if value)


def table(document):
    results, known, by_kind = document["programs"], document["versions"], {}
    columns = [key for key in SOURCES if len({one.get(key, "") for one in results}) > 1]
    head = (*HEAD, *(SOURCES[key] for key in columns))
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for result in results:
        by_kind.setdefault(kind_of(result["name"]), []).append(result)
    for kind in KINDS:
        if kind in by_kind:
            lines.append(f"| {kind.label} | {known.get(kind.version, '')} | {row(kind, by_kind[kind])}" +
                         "".join(f" {sources(by_kind[kind], key)} |" for key in columns))
    lines += remarks(results)
    last = [durations(results, document["seconds"])]
    common = {key: sources(results, key) for key in SOURCES if key not in columns}
    last += [f"Driver {known['driver']}."] if "driver" in known else []
    last += [f"Commit {common['commit']}."] if common.get("commit") else []
    last += [f"On {common['gpu']}."] if common.get("gpu") else []
    lines += ["", " ".join(last)]
    return "\n".join(lines) + "\n"


def durations(results, asked):
    """How long programs ran while everything moved; one that ended before PLAYED_S is named."""
    moving = {one["name"]: int(one["seconds"]["moving"]) for one in results if "moving" in one.get("seconds", {})}
    if min(moving.values(), default=0) >= PLAYED_S or not moving:
        return f"With everything moving, each ran for at least {min(moving.values(), default=asked)} s."
    short = ", ".join(f"`{name}` for {seconds} s" for name, seconds in sorted(moving.items()) if seconds < PLAYED_S)
    return f"With everything moving, each ran for at least {PLAYED_S} s, but {short}."


def remarks(results):
    """Programs whose results are no rows of success."""
    different = [f"`{one['name']}` ({one['verdict']})" for one in results
                 if not is_as_bare(one) and is_evidence(one)]
    odd = [f"`{one['name']}` ({one['verdict']})" for one in results if one["verdict"] in OF_MOVES]
    useless = [f"`{one['name']}`" for one in results if one["verdict"] and not is_evidence(one)]
    still = [f"`{one['name']}`" for one in results if not one["verdict"] and not one["moves"]]
    lines = []
    for text, found in (("Not as bare", different), ("As bare, but", odd), ("Failed without vmart, and do not count", useless),
                        ("Nothing moved in", still)):
        if found:
            lines += ["", f"{text}: {', '.join(found)}."]
    return lines


def with_table(page, text):
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no lines {BEGIN.strip()} and {END}")
    return f"{before}{begin}\n{text}\n{end}{after}"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--version", action="append", default=[], type=lambda text: text.split("=", 1))
    parser.add_argument("--merge", type=pathlib.Path)
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    return parser.parse_args()


def main():
    options = parse_arguments()
    document = merged([json.loads(path.read_text(encoding="utf-8")) for path in options.files],
                      options.version)
    if options.merge:
        options.merge.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if options.page is None:
        print(table(document), end="")
        return 0
    old = options.page.read_text(encoding="utf-8")
    new = with_table(old, table(document))
    if options.check:
        return int(new != old)
    options.page.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
