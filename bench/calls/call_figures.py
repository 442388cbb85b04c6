"""The tables of what calls and synchronous moves cost, and the bars that they are held against."""

import re
import statistics

from harness.samples import BAR_HEADERS, bytes_of, measured_first, missing, show_us, size_key, verdict

ROUTES = ("gpu0-gpu1", "gpu1-gpu0")


def rate_gb_s(samples):
    return bytes_of(samples.name.rsplit("/", 1)[1]) / samples.median() / 1e3


def _ratio_row(measured, ours, other, what, limit, invert=False):
    """Ours over the other's median must be at most `limit`; inverted: the other's over ours at least."""
    mine, theirs = measured.get(ours), measured.get(other)
    bar = f">= {limit}x" if invert else f"<= {limit}x"
    if mine is None or theirs is None:
        return missing(what, bar)
    ratio = theirs.median() / mine.median() if invert else mine.median() / theirs.median()
    met = ratio >= limit if invert else ratio <= limit
    figure = f"{ratio:.2f}x ({show_us(mine.median())} / {show_us(theirs.median())})"
    return [what, figure, bar, verdict(met)]


def _faster_row(measured, ours, other, what):
    """Faster means beyond the spread: our upper quartile below the other's lower one."""
    mine, theirs = measured.get(ours), measured.get(other)
    bar = "faster, beyond the quartiles"
    if mine is None or theirs is None:
        return missing(what, bar)
    met = mine.quartiles()[1] < theirs.quartiles()[0]
    figure = (f"{theirs.median() / mine.median():.2f}x faster "
              f"({show_us(mine.median())} / {show_us(theirs.median())})")
    return [what, figure, bar, verdict(met)]


def _copy_rows(measured):
    rows = []
    for route in ROUTES:
        for size, limit in (("1GiB", 1.15), ("8GiB", 1.10)):
            rows.append(_ratio_row(measured, f"migrate/warm/{route}/{size}",
                                   f"raw_copy/{route}/{size}",
                                   f"{size} {route}, warm cache / raw copy", limit))
        rows.append(_ratio_row(measured, f"migrate/empty/{route}/8GiB", f"raw_copy/{route}/8GiB",
                               f"8GiB {route}, empty cache / raw copy", 1.25))
    return rows


def _rival_rows(measured):
    rows = []
    for route in ROUTES:
        for size in ("1GiB", "8GiB"):
            rows.append(_ratio_row(measured, f"migrate/warm/{route}/{size}",
                                   f"prefetch/{route}/{size}",
                                   f"{size} {route}, managed prefetch / warm cache", 1.7, invert=True))
        sizes = [samples.name.rsplit("/", 1)[1] for samples in
                 sorted(measured.matching(f"naive/alone/{route}/.*"), key=size_key)]
        for size in sizes:
            for cache in ("warm", "empty"):
                for naive in ("alone", "keepers"):
                    rows.append(_faster_row(measured, f"migrate/{cache}/{route}/{size}",
                                            f"naive/{naive}/{route}/{size}",
                                            f"{size} {route}, {cache} cache, naive {naive}"))
    return rows


def _alloc_rows(measured):
    rows = []
    for size in ("2MiB", "64MiB"):
        rival = "cuda_malloc" if measured.get(f"cuda_malloc/plain/{size}") else "cu_mem_alloc"
        rows.append(_ratio_row(measured, f"alloc_free/{size}", f"{rival}/plain/{size}",
                               f"alloc + free {size}, warm / {rival} + free", 1.0))
    peers = max(1, measured.gpus - 1)
    for size, chunks in (("256MiB", 1), ("4GiB", 16)):
        samples = measured.get(f"first_alloc/{size}")
        bar = f"< {peers} ms a chunk of 256 MiB, every sample"
        if samples is None:
            rows.append(missing(f"first alloc of {size}, fresh runtime", bar))
            continue
        rows.append([f"first alloc of {size}, fresh runtime",
                     f"median {show_us(samples.median())}, max {show_us(samples.us[-1])}", bar,
                     verdict(samples.us[-1] / chunks < peers * 1000)])
    return rows


def _host_rows(measured):
    rows = []
    for route in ("gpu0-host0", "host0-gpu0"):
        ours, raw = measured.get(f"migrate/warm/{route}/1GiB"), measured.get(f"raw_copy/{route}/1GiB")
        what, bar = f"1GiB {route}, share of the raw copy's rate", ">= 0.75"
        if ours is None or raw is None:
            rows.append(missing(what, bar))
            continue
        share = raw.median() / ours.median()
        met = share >= 0.75 if measured.gpus == 2 else None
        rows.append([what, f"{share:.2f} ({rate_gb_s(ours):.1f} of {rate_gb_s(raw):.1f} GB/s)",
                     bar if measured.gpus == 2 else "shown", verdict(met) if met is not None else ""])
    return rows


def _dark_rows(measured):
    limit = {2: 150, 4: 230}.get(measured.gpus)
    rows = []
    for samples in measured.matching(r"migrate/dark/.*"):
        median = samples.counter("dark_median_us")
        worst = samples.counter_max("dark_max_us")
        p99 = samples.counter("dark_p99_us")
        moves = samples.counter("moves")
        rows.append([f"dark time, {samples.name.split('/', 2)[2]}",
                     f"median {show_us(median)}, p99 {show_us(p99)}, max {show_us(worst)} of "
                     f"{samples.processes} x {moves:.0f}",
                     f"median <= {limit} us" if limit else "shown",
                     verdict(median <= limit) if limit else ""])
    return rows


def _registry_rows(measured):
    def lookup_ns(kind, threads, allocations):
        samples = measured.get(f"registry/{kind}/threads{threads}/{allocations}")
        return samples.counter("ns_per_lookup") if samples else None

    one, two = lookup_ns("independent", 1, 1000000), lookup_ns("independent", 2, 1000000)
    dependent = lookup_ns("dependent", 1, 1000000)
    if one is None or two is None or dependent is None:
        return [missing("registry look-up, 1 000 000 allocations", "<= 25 ns")]
    return [["registry look-up, 1 000 000 allocations, independent", f"{one:.1f} ns", "<= 25 ns",
             verdict(one <= 25)],
            ["the same, each of 2 threads", f"{two:.1f} ns", "<= 25 ns", verdict(two <= 25)],
            ["the same, dependent", f"{dependent:.1f} ns", "shown", ""]]


def _stress_rows(measured):
    what, bar = "1 000 moves beside launches, cudaMalloc, cudaFree, synchronise", "no hang"
    for samples in measured.matching(r"hold_stress/.*"):
        moves, busy = samples.counter("moves"), samples.counter("busy")
        beside = samples.counter("cuda_mallocs")
        figure = (f"{moves:.0f} moved, {busy:.0f} busy; wall median "
                  f"{show_us(samples.counter('wall_median_us'))}, "
                  f"p99 {show_us(samples.counter('wall_p99_us'))}, "
                  f"max {show_us(samples.counter('wall_max_us'))}; beside "
                  + ("no CUDA calls" if beside is None else f"{beside:.0f} mallocs"))
        met = None if beside is None else moves + busy >= 1000
        return [[what, figure, bar, verdict(met)]]
    hung = [failure for failure in measured.failed if failure["step"].startswith("hold_stress")]
    return [[what, hung[0]["reason"], bar, verdict(False)] if hung else missing(what, bar)]


def open_cost_rows(measured):
    """Used memory on each GPU after each step, above what it was before the first."""
    rows = []
    before = {}
    for step in measured.open_cost:
        if step["program"].startswith("first_move"):
            continue
        if step["step"] == "before":
            before = step["used_mib"]
            continue
        grown = [f"{gpu}: {step['used_mib'][gpu] - before[gpu]} MiB" for gpu in sorted(before)]
        rows.append([f"HBM above idle, {step['program']}: {step['step']}", ", ".join(grown), "shown",
                     ""])
    return rows


FIRST_MOVE_BAR_MS = 15
TAKEN_BAR_MIB = 64


def _unmanaged_mib(step):
    """Used memory of each GPU without the runtime's allocations and cache."""
    places = {name.replace("(", "").replace(")", ""): place for name, place in step["places"].items()}
    return {gpu: used - (places[gpu]["allocated_bytes"] + places[gpu]["cached_bytes"]) / 2 ** 20
            for gpu, used in step["used_mib"].items() if gpu in places}


def first_move_rows(measured):
    """The first moves of processes: how long they take, and what memory they leave taken."""
    steps = [step for step in measured.open_cost if step["program"].startswith("first_move")]
    times = {}
    taken = {}
    before = {}
    for step in steps:
        if step["step"] == "alloc and reserve":
            before = _unmanaged_mib(step)
        if "ms" not in step:
            continue
        times.setdefault(step["step"], []).append(step["ms"])
        for gpu, used in _unmanaged_mib(step).items():
            kept = taken.setdefault(step["program"], {})
            kept[gpu] = max(kept.get(gpu, 0), used - before[gpu])
    rows = []
    for name, values in times.items():
        held = name in ("first move", "first move back", "first live move")
        worst = max(values)
        rows.append([f"256 MiB, {name} of a process", f"median {statistics.median(values):.1f} ms, max {worst:.1f} ms",
                     f"max <= {FIRST_MOVE_BAR_MS} ms" if held else "shown",
                     verdict(worst <= FIRST_MOVE_BAR_MS) if held else ""])
    for program, grown in taken.items():
        if not grown:
            continue
        held = not program.endswith("host")
        rows.append([f"HBM that a process has taken, {program}",
                     ", ".join(f"{gpu}: {mib:.0f} MiB" for gpu, mib in sorted(grown.items())),
                     f"<= {TAKEN_BAR_MIB} MiB" if held else "shown",
                     verdict(max(grown.values()) <= TAKEN_BAR_MIB) if held else ""])
    return rows


def bar_rows(measured):
    """The rows of the table of bars: what, measured, bar, verdict."""
    rows = []
    if measured.gpus >= 2:
        rows += _copy_rows(measured) + _rival_rows(measured)
    rows += _alloc_rows(measured) + _host_rows(measured) + _dark_rows(measured)
    rows += _registry_rows(measured) + _stress_rows(measured) + open_cost_rows(measured) + \
        first_move_rows(measured)
    return measured_first(rows)


def all_rows(measured):
    """Every benchmark with its spread: name, samples, min, quartiles, max, rate."""
    rows = []
    for samples in sorted(measured.matching(r"(?!registry/|migrate/dark|hold_stress).*"), key=size_key):
        low, high = samples.quartiles()
        rate = f"{rate_gb_s(samples):.1f}" if re.match("migrate|raw_copy|naive|prefetch",
                                                       samples.name) else ""
        rows.append([samples.name, f"{len(samples.us)}/{samples.processes}", show_us(samples.us[0]),
                     show_us(low), show_us(samples.median()), show_us(high), show_us(samples.us[-1]),
                     rate])
    return rows


ALL_HEADERS = ["benchmark", "samples/processes", "min", "quartile", "median", "quartile", "max", "GB/s"]


CALLS = ("reserve", "create", "map", "first_grant", "later_grant", "unmap", "release", "unreserve")
CALL_HEADERS = ["chunk", *(call.replace("_", " ") for call in CALLS)]


def call_rows(measured):
    """What each driver call takes by size, alone and beside keepers: medians."""
    chosen = sorted(measured.matching(r"driver_calls/.*"), key=size_key)
    return [[samples.name.split("/", 1)[1],
             *(show_us(samples.counter(call + "_us")) for call in CALLS)] for samples in chosen]


PHASES = ("cache", "wait", "copy", "unmap", "map", "grant", "retire", "dark", "stall")
PHASE_HEADERS = ["migration", "wall", "chunks", *PHASES]


def phase_rows(measured):
    """Where the time of a migration goes, by its report: medians; phases of chunks overlap."""
    chosen = sorted(measured.matching(r"migrate/(warm|empty|freed)/.*"), key=size_key)
    return [[samples.name.split("/", 1)[1], show_us(samples.median()),
             f"{samples.counter('chunks') or 0:.0f}",
             *(show_us(samples.counter(phase + "_us")) for phase in PHASES)] for samples in chosen]


REGISTRY_HEADERS = ["look-up", "allocations", "median ns", "largest of all repetitions"]


def registry_rows(measured):
    rows = []
    for samples in measured.matching(r"registry/.*"):
        kind, threads, allocations = samples.name.split("/")[1:]
        rows.append([f"{kind}, {threads[7:]} thread{'s' if threads != 'threads1' else ''}",
                     f"{int(allocations):,}".replace(",", " "),
                     f"{samples.counter('ns_per_lookup'):.2f}",
                     f"{samples.counter_max('ns_per_lookup'):.2f}"])
    return sorted(rows, key=lambda row: (row[0], int(row[1].replace(" ", ""))))


# What a document can show, by name, in the order in which it is printed.
TABLES = {
    "all": (ALL_HEADERS, all_rows),
    "phases": (PHASE_HEADERS, phase_rows),
    "calls": (CALL_HEADERS, call_rows),
    "registry": (REGISTRY_HEADERS, registry_rows),
    "bars": (BAR_HEADERS, bar_rows),
}
