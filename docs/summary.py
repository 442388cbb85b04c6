#!/usr/bin/env python3
"""Writes docs/results/summary.md and the table of README: what a newcomer wants to know, each with its rival.

    docs/summary.py             writes both
    docs/summary.py --check     leaves with 1 if that would change one of them

A row is made from the samples in docs/measurements/, or quoted from a table of a page in docs/results/. A quoted row names
the page and cells that stand there in one line of a table; the script ends with an error if they do not.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
# After the path is known.
from harness.samples import Measurements, show_us  # noqa: E402
from live import live_figures  # noqa: E402

RESULTS, SAMPLES = ROOT / "docs/results", ROOT / "docs/measurements"
BEGIN, END = "<!-- summary:begin -->\n", "<!-- summary:end -->"
HEADERS = ["what", "vmart", "rival", "machine", "commit", "more"]


@dataclasses.dataclass
class Row:
    what: str
    ours: str
    rival: str
    machine: str
    commit: str
    page: str  # And the heading in it, if any.
    first: bool = False  # README has it, too.


def samples(name):
    return Measurements(json.loads((SAMPLES / f"{name}.json").read_text(encoding="utf-8")))


def made_on(context):
    return {"machine": f"{len(context['gpus'])} x {context['gpus'][0].removeprefix('NVIDIA ')}",
            "commit": (context["commit"] or "unknown")[:8]}


def quoted(page, *cells):
    """The cells of a row of a table in a page. Each of `cells` stands in it; anything else is an error."""
    name = page.partition("#")[0]
    lines = [line for line in (RESULTS / name).read_text(encoding="utf-8").splitlines()
             if line.startswith("|") and all(cell in line for cell in cells)]
    if len(lines) != 1:
        raise LookupError(f"docs/results/{name}: {len(lines)} rows of tables have {cells}")
    return lines[0]


def milliseconds(us):
    return show_us(us)


def stop_of_a_live_move():
    live = samples("live_h200x2")
    medians = [live_figures.spread_us(live.get(f"live/size/live/{size}"), "stall")[0] for size in ("64MiB", "16GiB")]
    held = [live_figures.spread_us(live.get(f"live/size/held/{size}"), "stall")[0] for size in ("64MiB", "16GiB")]
    return Row("How long your streams stop for a live move to the other GPU, 64 MiB to 16 GiB (median)",
               " to ".join(map(milliseconds, medians)), f"stopped for the whole copy: {' to '.join(map(milliseconds, held))}",
               **made_on(live.context), page="live_moves.md#by-size-and-way", first=True)


def eight_gib():
    moves = samples("h200x2")
    ours, managed, by_hand, copy = (milliseconds(moves.get(f"{way}/gpu0-gpu1/8GiB").median())
                                    for way in ("migrate/warm", "prefetch", "naive/alone", "raw_copy"))
    return Row("8 GiB to the other GPU, synchronous", ours,
               f"managed memory, prefetched: {managed}; the same driver calls by hand: {by_hand}; a copy alone: {copy}",
               **made_on(moves.context), page="migrations.md#two-gpus", first=True)


def allocation():
    moves = samples("h200x2")
    return Row("`alloc` and `free` of 64 MiB, warm", milliseconds(moves.get("alloc_free/64MiB").median()),
               f"`cudaMalloc` and `cudaFree`: {milliseconds(moves.get('cuda_malloc/plain/64MiB').median())}",
               **made_on(moves.context), page="migrations.md#two-gpus")


def drift():
    placed = samples("placement_h200x4")
    ours, managed = placed.get("placement/drift/gpus4"), placed.get("managed/drift/gpus4")
    phases = range(1, 4)  # The first one begins with the best placement.

    def rates(of, what):
        found = [of.counter(f"phase{phase}_{what}_gb_s") for phase in phases]
        low, high = (f"{rate:.0f}" for rate in (min(found), max(found)))
        return low if low == high else f"{low} to {high}"

    return Row("Four GPUs whose hot memory drifts, read with a policy (`cost_benefit`), once settled",
               f"{rates(ours, 'scheduler')} GB/s",
               f"best static placement: {rates(ours, 'best')}; where it was allocated: {rates(ours, 'first_touch')}; "
               f"managed memory: {rates(managed, 'managed')}",
               **made_on(placed.context), page="placement.md#hot-sets-that-drift")


def programs():
    document = json.loads((SAMPLES / "run_programs_h200x2.json").read_text(encoding="utf-8"))
    moved = [one for one in document["programs"] if one["moves"]]
    stuck = sum(one["verdict"] == "a move is stuck" for one in moved)
    same = [one for one in moved if one["verdict"] in ("", "a move is stuck")]
    tests = sum(one["compared"] for one in moved if one["name"].startswith("torch-tests."))
    moves = f"{sum(one['moves'] for one in moved):,}".replace(",", " ")
    commits = len({one["commit"] for one in moved})
    return Row(f"Unmodified programs under `vmart run` while memory moves at random, {tests} tests of PyTorch among them",
               f"{len(same)} of {len(moved)} end as without it, in {stuck} a move got stuck; {moves} moves of "
               f"{sum(one['bytes'] for one in moved) / 1e9:.0f} GB",
               "the same programs without vmart", moved[0]["gpu"].replace("NVIDIA ", ""), f"{commits} commits",
               "../guide/run.md#what-has-run", first=True)


def training():
    line = json.loads((SAMPLES / "run_timeline_h200x2.json").read_text(encoding="utf-8"))
    there, back = line["moves"]

    def step(begin, end):
        return statistics.median(one["took_ms"] for one in line["steps"]
                                 if begin <= one["end_s"] - one["took_ms"] / 1e3 and one["end_s"] < end)

    equal = line["steps_compared"] if line["first_difference"] is None else line["first_difference"]
    return Row(f"A GPT in training, {there['bytes'] / 2**30:.1f} GiB moved to the other GPU and back (`vmart run`)",
               f"{there['end_s'] - there['begin_s']:.2f} s and {back['end_s'] - back['begin_s']:.2f} s; {equal} of "
               f"{line['steps_compared']} losses equal. A step: {step(0, there['begin_s']):.1f} ms before, "
               f"{step(there['end_s'], back['begin_s']):.0f} ms while the memory is away",
               f"a step without vmart: {line['bare']['step_ms']:.1f} ms", **made_on(line["context"]),
               page="unmodified.md", first=True)


def pause():
    row = quoted("python.md", "pause and resume of 8 GiB with a copy at the host", "15.4x and 5.7x", "`42c4f0de`")
    theirs = re.search(r"torch_memory_saver ([\d ]+) and (\d+) ms, vmart (\d+) and (\d+)", row)
    without = re.search(r"torch_memory_saver ([\d.]+) and ([\d.]+) ms, vmart ([\d.]+) and ([\d.]+)",
                        quoted("python.md", "the same without a copy"))
    return Row("Pause and resume of 8 GiB of PyTorch's memory, with a copy at the host",
               f"{theirs[3]} and {theirs[4]} ms; without a copy {without[3]} and {without[4]} ms",
               f"torch_memory_saver: {theirs[1]} and {theirs[2]} ms; without a copy {without[1]} and {without[2]} ms",
               "2 x H200", "42c4f0de", "python.md#on-two-h200", first=True)


def cupy():
    found = re.search(r"([\d ]+) of ([\d ]+) that pass bare", quoted("python.md", "`tests/gpu/suites/cupy_tests.py`"))
    return Row("CuPy's own tests, on memory of vmart", f"{found[1].strip()} of {found[2].strip()} pass",
               "those that pass on CuPy's own allocator", "2 x H200", "42c4f0de", "python.md#on-two-h200", first=True)


def beyond_hbm():
    def rate(row):
        return row.strip("| ").split("|")[1].strip().split(" (")[0]

    bare, rival, peer, host, auto = (rate(quoted("unmodified.md", text)) for text in (
        "| nowhere: all in HBM, bare", "| at the host, by `accelerate`", "| at GPU 1, `--capacity` |",
        "| at the host, `--capacity`, GPU 1 not visible", "| **921 (0.49)**"))
    slow = auto.strip("*")
    return Row("Inference with 20 GiB of weights and HBM for 16.3 GiB (`vmart run --capacity`), tokens a second",
               f"the rest at GPU 1: {peer}; at the host: {host}; at the host with `--policy auto`: {slow}",
               f"`accelerate`, the rest at the host: {rival}; all in HBM: {bare}",
               "2 x H200", "cad44243", "unmodified.md", first=True)


def standstill():
    ours = re.search(r"\| (\d+ ms), of it", quoted("unmodified.md", "`--cases standstill`"))[1]
    driver = re.search(r"\| ([\d.]+ s): ", quoted("unmodified.md", "the same by the driver's checkpoint"))[1]
    again = re.search(r"\| ([\d.]+ s): ", quoted("unmodified.md", "the same by saving the model to memory"))[1]
    return Row("The longest time without a step while a model of 2.6 GiB moves to the other GPU", ours,
               f"the driver's checkpoint and restore: {driver}; saving, ending and starting again: {again}",
               "2 x H200", "14e38c74", "unmodified.md", first=True)


ROWS = (stop_of_a_live_move, eight_gib, standstill, pause, beyond_hbm, training, programs, cupy, drift, allocation)


def link(row, folder):
    return f"[more]({folder}{row.page})" if not row.page.startswith("../") else \
        f"[more]({'docs/' if folder else '../'}{row.page.removeprefix('../')})"


def page(rows):
    cells = [[row.what, row.ours, row.rival, row.machine, f"`{row.commit}`" if " " not in row.commit else row.commit,
              link(row, "")] for row in rows]
    return ("# Summary\n\nTen figures and their rivals, on H200 with driver 580.159.04. `docs/summary.py` makes this page from the "
            "samples in\n`docs/measurements/` and from the tables of the pages that *more* leads to. Machine and commit are those "
            "of the run.\n[All measurements](measurements.md).\n\n" + markdown(HEADERS, cells))


def of_readme(rows):
    cells = [[row.what, row.ours, row.rival, link(row, "docs/results/")] for row in rows if row.first]
    return markdown(["two H200", "vmart", "rival", ""], cells)


def markdown(headers, rows):
    lines = [headers, ["---"] * len(headers), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def written():
    """The text of each file, by its path."""
    rows = [row() for row in ROWS]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise LookupError(f"README.md has no lines {BEGIN.strip()} and {END}")
    return {RESULTS / "summary.md": page(rows), ROOT / "README.md": f"{before}{begin}\n{of_readme(rows)}\n{end}{after}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    changed = [path for path, text in written().items()
               if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in changed:
        if check:
            print(f"{path.relative_to(ROOT)} is not what docs/summary.py writes")
        else:
            path.write_text(written()[path], encoding="utf-8")
    return int(check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
