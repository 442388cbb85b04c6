#!/usr/bin/env python3
"""Writes docs/results/summary.md and the table of README: what a newcomer wants to know, each with its rival.

    docs/summary.py             writes both
    docs/summary.py --check     leaves with 1 if that would change one of them

`bench/run.py --summary docs/measurements/summary_MACHINE.json` measures most rows anew, with their rivals, on a machine: each such
file replaces the rows that it has. The others are made from older samples in docs/measurements/, or quoted from a table of a
page in docs/results/. A quoted row names the page and cells that stand there in one line of a table; the script ends with an
error if they do not.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
# After the path is known.
from harness.samples import Measurements, show_us  # noqa: E402
from live import live_figures  # noqa: E402
from overview import readings  # noqa: E402
from report import describe  # noqa: E402

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


def samples_of_a_timeline(name):
    path = SAMPLES / f"{name}.json"
    context = json.loads(path.read_text(encoding="utf-8"))["context"]
    return Measurements({"context": {**context, "gpu_count": len(context["gpus"])}, "results": readings.of_timeline(path)})


class Head(Measurements):
    """A file of `bench/run.py --summary`, by whose name the machine is known."""

    def __init__(self, path):
        document = json.loads(path.read_text(encoding="utf-8"))
        super().__init__(document)
        self.name, self.steps = path.name, document["steps"]
        if self.context["driver"] != "cuda":
            raise LookupError(f"docs/measurements/{path.name} was measured on {self.context['driver']}, not on GPUs")

    def has(self, row):
        """Whether vmart was measured, and a rival beside it."""
        ways = {step["way"]: step["state"] == "done" for step in self.steps if step["row"] == row}
        in_one_process = set(ways) == {"vmart"}
        return ways.get("vmart", False) and (in_one_process or any(done for way, done in ways.items() if way != "vmart"))


def heads():
    """H200 before others, more GPUs before fewer: README has the first that has a row."""
    return sorted(map(Head, SAMPLES.glob("summary_*.json")),
                  key=lambda head: ("H200" not in head.context["gpus"][0], -head.gpus, head.name))


def made_on(context):
    return {"machine": f"{len(context['gpus'])} x {context['gpus'][0].removeprefix('NVIDIA ')}",
            "commit": (context["commit"] or "unknown")[:8]}


def rivals(measured, *named, figure=None):
    """What each rival took, for pairs of text and name. Where nothing was measured, that is said."""
    figure = figure or (lambda found: milliseconds(found.median()))
    return "; ".join(f"{what}: {figure(found) if (found := measured.get(name)) else 'not measured'}" for what, name in named)


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


def stop_of_a_live_move(head=None):
    live = head or samples("live_h200x2")
    medians, held = ([live_figures.spread_us(one, "stall")[0] if (one := live.get(f"live/size/{way}/{size}")) else None
                      for size in ("64MiB", "16GiB")] for way in ("live", "held"))
    return Row("How long your streams stop for a live move to the other GPU, 64 MiB to 16 GiB (median)",
               " to ".join(map(milliseconds, medians)), f"stopped for the whole copy: {' to '.join(map(milliseconds, held))}",
               **made_on(live.context), page="live_moves.md#by-size-and-way", first=True)


def to_other_gpu(head=None):
    moves, size = (head, "4GiB") if head else (samples("h200x2"), "8GiB")
    way = f"gpu0-gpu1/{size}"
    return Row(f"{size.removesuffix('GiB')} GiB to the other GPU, synchronous", milliseconds(moves.get(f"migrate/warm/{way}").median()),
               rivals(moves, ("managed memory, prefetched", f"prefetch/{way}"),
                      ("the same driver calls by hand", f"naive/alone/{way}"), ("a copy alone", f"raw_copy/{way}")),
               **made_on(moves.context), page="migrations.md#two-gpus", first=True)


def to_host(head=None):
    moves = head or samples("h200x2")

    def both(way):
        found = [moves.get(f"{way}/{route}/4GiB") for route in ("gpu0-host0", "host0-gpu0")]
        return " and ".join(milliseconds(one.median()) for one in found) if all(found) else "not measured"

    theirs = [("a copy alone", "raw_copy")]
    if head:
        theirs = [("managed memory, prefetched", "prefetch"), ("the same driver calls by hand", "naive"), *theirs]
    return Row("4 GiB to the host and back, synchronous", both("migrate/warm"),
               "; ".join(f"{what}: {both(way)}" for what, way in theirs),
               **made_on(moves.context), page="migrations.md#two-gpus")


def allocation(head=None):
    moves = head or samples("h200x2")
    rival, name = ("`cuMemAlloc` and `cuMemFree`", "cu_mem_alloc") if moves.get("cu_mem_alloc/plain/64MiB") else \
        ("`cudaMalloc` and `cudaFree`", "cuda_malloc")
    return Row("`alloc` and `free` of 64 MiB, warm", milliseconds(moves.get("alloc_free/64MiB").median()),
               rivals(moves, (rival, f"{name}/plain/64MiB")), **made_on(moves.context), page="migrations.md#two-gpus")


def pool(head=None):
    what = "Allocate and free 1 MiB of a pool, on one stream and freed on another one"
    if not head:
        same, other = (row.strip("| ").split(" | ") for row in (quoted("pools.md", "| 1 MiB |"),
                                                                quoted("pools.md", "| freed on another stream, 1 MiB |")))
        return Row(what, f"{same[3]} and {other[3]} us", f"`cudaMallocAsync`: {same[4]} and {other[4]} us", "2 x H200",
                   "3b26bfa", "pools.md#pools")

    def both(whose):
        found = [head.get(f"{whose}/{way}_stream/threads1/1048576") for way in ("same", "cross")]
        # A sample is a thousand pairs.
        return " and ".join(f"{one.median() / 1000:.3g}" for one in found) + " us" if all(found) else "not measured"

    return Row(what, both("pool"), f"`cudaMallocAsync`: {both('cuda_pool')}", **made_on(head.context), page="pools.md#pools")


def two_times(measured, name, *counters):
    """Two medians of the same samples, in milliseconds."""
    found = measured.get(name)
    if not found:
        return "not measured"
    milliseconds = [found.counter(counter) / 1e3 for counter in counters]
    return " and ".join(f"{one:.3g}" if one < 1000 else f"{one:,.0f}".replace(",", " ") for one in milliseconds) + " ms"


def park(head=None):
    if not head:
        return None  # Its rivals were not measured before.
    def times(name):
        return two_times(head, name, "park_us", "resume_us")

    custom = "checkpoint_park/custom/8GiB"
    return Row("`park` and `resume` of 8 GiB on one GPU, with a copy at the host",
               f"{times('park/kept/8GiB')}; without a copy {times('park/undefined_largest/8GiB')}",
               f"the same driver calls by hand: {times('naive_park/kept/8GiB')}, without a copy "
               f"{times('naive_park/dropped/8GiB')}; the driver's checkpoint of the process: "
               f"{times('checkpoint_park/host/8GiB')}" + (f", with custom storage {times(custom)}" if head.get(custom) else ""),
               **made_on(head.context), page="python.md#on-two-h200")


def drift(head=None):
    placed, gpus = (head, 2) if head else (samples("placement_h200x4"), 4)
    ours, managed = placed.get(f"placement/drift/gpus{gpus}"), placed.get(f"managed/drift/gpus{gpus}")
    phases = range(1, gpus)  # The first one begins with the best placement.

    def rates(of, what):
        if of is None:
            return "not measured"
        found = [of.counter(f"phase{phase}_{what}_gb_s") for phase in phases]
        low, high = (f"{rate:.0f}" for rate in (min(found), max(found)))
        return low if low == high else f"{low} to {high}"

    return Row(f"{ {2: 'Two', 4: 'Four'}[gpus]} GPUs whose hot memory drifts, read with a policy (`cost_benefit`), once settled",
               f"{rates(ours, 'scheduler')} GB/s",
               f"best static placement: {rates(ours, 'best')}; where it was allocated: {rates(ours, 'first_touch')}; "
               f"managed memory: {rates(managed, 'managed')}",
               **made_on(placed.context), page="placement.md#hot-sets-that-drift")


def programs(_=None):
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


def training(head=None):
    line = head or samples_of_a_timeline("run_timeline_h200x2")
    there, back, before, away, bare = (line.get(f"training/{name}") for name in (
        "there", "back", "step_before", "step_away", "step_bare"))
    return Row(f"A GPT in training, {there.counter('moved_bytes') / 2**30:.1f} GiB moved to the other GPU and back (`vmart run`)",
               f"{there.median() / 1e6:.2f} s and {back.median() / 1e6:.2f} s; {bare.counter('equal_count')} of "
               f"{bare.counter('compared_count')} losses equal. A step: {before.median() / 1e3:.1f} ms before, "
               f"{away.median() / 1e3:.0f} ms while the memory is away",
               f"a step without vmart: {bare.median() / 1e3:.1f} ms", **made_on(line.context),
               page="unmodified.md", first=True)


def pause(head=None):
    what = "Pause and resume of 8 GiB of PyTorch's memory, with a copy at the host"
    if head:
        def both(whose):
            kept, dropped = (two_times(head, f"pause/{whose}/{case}", "pause_us", "resume_us") for case in ("backup", "dropped"))
            return f"{kept}; without a copy {dropped}"

        return Row(what, both("vmart"), f"torch_memory_saver: {both('torch_memory_saver')}", **made_on(head.context),
                   page="python.md#on-two-h200", first=True)
    row = quoted("python.md", "pause and resume of 8 GiB with a copy at the host", "15.4x and 5.7x", "`42c4f0de`")
    theirs = re.search(r"torch_memory_saver ([\d ]+) and (\d+) ms, vmart (\d+) and (\d+)", row)
    without = re.search(r"torch_memory_saver ([\d.]+) and ([\d.]+) ms, vmart ([\d.]+) and ([\d.]+)",
                        quoted("python.md", "the same without a copy"))
    return Row(what, f"{theirs[3]} and {theirs[4]} ms; without a copy {without[3]} and {without[4]} ms",
               f"torch_memory_saver: {theirs[1]} and {theirs[2]} ms; without a copy {without[1]} and {without[2]} ms",
               "2 x H200", "42c4f0de", "python.md#on-two-h200", first=True)


def cupy(_=None):
    found = re.search(r"([\d ]+) of ([\d ]+) that pass bare", quoted("python.md", "`tests/gpu/suites/cupy_tests.py`"))
    return Row("CuPy's own tests, on memory of vmart", f"{found[1].strip()} of {found[2].strip()} pass",
               "those that pass on CuPy's own allocator", "2 x H200", "42c4f0de", "python.md#on-two-h200", first=True)


def beyond_hbm(head=None):
    if head:
        return beyond_hbm_of(head)

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


def beyond_hbm_of(head):
    def rate(name):
        found = head.get(f"capacity/{name}/8x128")
        return f"{found.counter('tokens_per_s'):,.0f}".replace(",", " ") if found else "not measured"

    bare = head.get("capacity/bare/8x128")
    peer = f"the rest at GPU 1: {rate('gpu1')}; at the host" if head.gpus > 1 else "the rest at the host"
    return Row(f"Inference with {bare.counter('weights_bytes') / 2**30:.0f} GiB of weights and HBM for "
               f"{bare.counter('limit_bytes') / 2**30:.1f} GiB (`vmart run --capacity`), tokens a second",
               f"{peer}: {rate('host')}; at the host with `--policy auto`: {rate('host_auto')}",
               f"`accelerate`, the rest at the host: {rate('accelerate')}; all in HBM: {rate('bare')}",
               **made_on(head.context), page="unmodified.md", first=True)


def standstill(head=None):
    what = "The longest time without a step while a model of 2.6 GiB moves to the other GPU"
    if head:
        return Row(what, milliseconds(head.get("standstill/vmart").median()),
                   rivals(head, ("the driver's checkpoint and restore", "standstill/checkpoint"),
                          ("saving, ending and starting again", "standstill/restart"),
                          figure=lambda found: f"{found.median() / 1e6:.3g} s"),
                   **made_on(head.context), page="unmodified.md", first=True)
    ours = re.search(r"\| (\d+ ms), of it", quoted("unmodified.md", "`--cases standstill`"))[1]
    driver = re.search(r"\| ([\d.]+ s): ", quoted("unmodified.md", "the same by the driver's checkpoint"))[1]
    again = re.search(r"\| ([\d.]+ s): ", quoted("unmodified.md", "the same by saving the model to memory"))[1]
    return Row(what, ours,
               f"the driver's checkpoint and restore: {driver}; saving, ending and starting again: {again}",
               "2 x H200", "14e38c74", "unmodified.md", first=True)


ROWS = (stop_of_a_live_move, to_other_gpu, to_host, standstill, pause, park, beyond_hbm, training, programs, cupy, drift,
        allocation, pool)


def rows_of(make, measured):
    """One for each machine on which the row was measured anew, else the older one, if there is one."""
    anew = [make(head) for head in measured if head.has(make.__name__)]
    return anew or [row for row in [make()] if row]


def link(row, folder):
    return f"[more]({folder}{row.page})" if not row.page.startswith("../") else \
        f"[more]({'docs/' if folder else '../'}{row.page.removeprefix('../')})"


def page(rows, measured):
    cells = [[row.what, row.ours, row.rival, row.machine, f"`{row.commit}`" if " " not in row.commit else row.commit,
              link(row, "")] for row in rows]
    runs = "".join(f"- `docs/measurements/{head.name}`: {describe(head.context)}\n" for head in measured)
    return (f"# Summary\n\n{len(rows)} figures and their rivals. `docs/summary.py` makes this page from the samples in "
            "`docs/measurements/` and from the\ntables of the pages that *more* leads to. Machine and commit are those of the run, "
            "on H200 with driver 580.159.04\nunless a list below says otherwise. [All measurements](measurements.md).\n\n"
            + markdown(HEADERS, cells) + (f"\nMeasured anew, each by one command:\n\n{runs}" if runs else ""))


def of_readme(rows):
    cells = [[row.what, row.ours, row.rival, row.machine, link(row, "docs/results/")] for row in rows if row.first]
    return markdown(["what", "vmart", "rival", "machine", ""], cells)


def markdown(headers, rows):
    lines = [headers, ["---"] * len(headers), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def written():
    """The text of each file, by its path."""
    measured = heads()
    made = [rows_of(make, measured) for make in ROWS]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise LookupError(f"README.md has no lines {BEGIN.strip()} and {END}")
    return {RESULTS / "summary.md": page([row for rows in made for row in rows], measured),
            ROOT / "README.md": f"{before}{begin}\n{of_readme([rows[0] for rows in made if rows])}\n{end}{after}"}


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
