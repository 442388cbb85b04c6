"""The tables of live moves: what live_bench measured, and the bars that it is held against."""

import re
import statistics

from harness.samples import (BAR_HEADERS, at_fraction, measured_first, missing, number, share, show_us, size_key,
                             verdict)

HEADLINE = "live/stall/streams4/kernel5us/backlog1/"
SIZE = r"\d+(?:GiB|MiB|B)"


def spread_us(samples, what):
    """Median, p99, largest: of every value where there are all, else of the process's own figures."""
    values = samples.series.get(what + "_us")
    counted = samples.counter(what + "_count")
    if values and counted is None:
        return statistics.median(values), at_fraction(values, 0.99), max(values)
    return (samples.counter(what + "_median_us"), samples.counter(what + "_p99_us"),
            samples.counter_max(what + "_max_us"))


def spread(samples, what):
    if spread_us(samples, what)[0] is None:
        return "none"
    return " / ".join(show_us(value) for value in spread_us(samples, what))


def reasons(samples):
    """Why gates were given up, with how often: the refusals that do not tell of another way."""
    found = {name.removeprefix("reason_"): samples.total(name)
             for name in samples.counters if name.startswith("reason_")}
    found.pop("other_way", None)
    return ", ".join(f"{name} {times:.0f}" for name, times in sorted(found.items()))


def _stall_rows(measured):
    rows = []
    bars = {(2, "256MiB"): (280, 500), (4, "256MiB"): (330, None), (2, "64MiB"): (180, None)}
    for size in ("256MiB", "64MiB"):
        median_max, p99_max = bars.get((measured.gpus, size), (None, None))
        bar = "shown" if median_max is None else f"<= {median_max}" + \
            (f" / {p99_max} us" if p99_max else " us")
        what = f"stall, {size} HBM to HBM, few tiles dirty, median / p99 / max"
        samples = measured.get(HEADLINE + size)
        median, p99, _ = spread_us(samples, "stall") if samples else (None, None, None)
        if median is None:
            rows.append(missing(what, bar))
            continue
        met = None if median_max is None else \
            median <= median_max and (p99_max is None or p99 <= p99_max)
        rows.append([what, f"{spread(samples, 'stall')} of {samples.total('moves'):.0f}", bar,
                     "" if met is None else verdict(met)])
    return rows


def _size_rows(measured):
    rows = []
    for way, note in (("live_budget", "stall budget 60 ms a second"), ("live", "no stall budget")):
        large, small = (measured.get(f"live/size/{way}/{size}") for size in ("16GiB", "256MiB"))
        what = f"stall moving 16GiB against 256MiB, {note}, median / p99"
        bar = "<= 1.1x / 1.5x"
        values = [spread_us(samples, "stall") if samples else None for samples in (large, small)]
        if None in values or None in values[0] or None in values[1]:
            rows.append(missing(what, bar))
            continue
        median, p99 = (values[0][i] / values[1][i] for i in (0, 1))
        rows.append([what, f"{median:.2f}x / {p99:.2f}x ({spread(large, 'stall')} of "
                     f"{large.total('stall_count'):.0f}, {spread(small, 'stall')} of "
                     f"{small.total('stall_count'):.0f})", bar,
                     verdict(median <= 1.1 and p99 <= 1.5)])
    return rows


def _rate_rows(measured):
    rows = []
    for cache, bar in (("warm", ">= 0.75"), ("cold", "shown")):
        samples = measured.get(f"live/rate/{cache}/16GiB")
        what = f"rate of 16GiB live, {cache} cache, against the raw copy"
        if samples is None or samples.counter("rate_gb_s") is None:
            rows.append(missing(what, bar))
            continue
        rate, raw = samples.counter("rate_gb_s"), samples.counter("raw_gb_s")
        rows.append([what, f"{rate / raw:.2f} ({rate:.0f} of {raw:.0f} GB/s); the application loses "
                     f"{share(samples.counter('lost_share'))}", bar,
                     verdict(rate / raw >= 0.75) if cache == "warm" else ""])
    return rows


def _budget_rows(measured):
    rows = []
    for others in ("latency", "bandwidth", "staying"):
        samples = measured.get(f"live/budget/{others}/16GiB")
        bound = {"staying": "kernels that fill the GPU until they end"}.get(others, others)
        what = f"stall budget 60 ms a second, other streams bound by {bound}: " \
               "gated lose / others lose; rate"
        bar = "shown" if others == "staying" else "<= 8 % / <= 4 %; >= 60 GB/s"
        if samples is None or samples.counter("rate_gb_s") is None:
            rows.append(missing(what, bar))
            continue
        gated, other = samples.counter("gated_lost_share"), samples.counter("others_lost_share")
        rate = samples.counter("rate_gb_s")
        rows.append([what, f"{share(gated)} / {share(other)}; {rate:.0f} GB/s", bar,
                     verdict(gated <= 0.08 and other <= 0.04 and rate >= 60)
                     if others != "staying" else ""])
    return rows


def _drain_rows(measured):
    rows = []
    for way in ("held/at_once", "held/in_turn", "live/at_once", "live/in_turn"):
        samples = measured.first(f"live/drain/{way}/{SIZE}")
        what = f"draining a GPU, {way.replace('/', ', ').replace('_', ' ')}, against its egress"
        judged = way.startswith("held") and measured.gpus == 4
        bar = ">= 0.85" if judged else "shown"
        if samples is None:
            rows.append(missing(what, bar))
            continue
        rate, egress = samples.counter("rate_gb_s"), samples.counter("egress_gb_s")
        rows.append([what, f"{rate / egress:.2f} ({rate:.0f} of {egress:.0f} GB/s), "
                     f"{samples.name.rsplit('/', 1)[1]} to {samples.counter('targets'):.0f}", bar,
                     verdict(rate / egress >= 0.85) if judged else ""])
    return rows


def _host_rows(measured):
    limit_us = {2: 1500, 4: 2500}.get(measured.gpus)
    bar = f"median <= {limit_us / 1000} ms" if limit_us else "shown"
    samples = measured.get("live/host/32MiB")
    rows = []
    for direction, what in (("to", "HBM to host"), ("from", "host to HBM")):
        what = f"stall, {what}, 32MiB, median / p99 / max"
        median = spread_us(samples, direction + "_host_stall")[0] if samples else None
        if median is None:
            rows.append(missing(what, bar))
            continue
        rows.append([what, spread(samples, direction + "_host_stall"), bar,
                     verdict(median <= limit_us) if limit_us else ""])
    return rows


def _beside_rows(measured):
    rows = []
    for other in ("threads", "process", "monitor"):
        what, bar = f"live moves beside {other}: stall median / p99 / max", "no hang of 1 000"
        samples = measured.first(f"live/beside/{other}/{SIZE}")
        hung = [failure for failure in measured.failed
                if failure["step"] == f"live_beside_{other}"]
        if hung:
            rows.append([what, hung[0]["reason"], bar, verdict(False)])
        elif samples is None:
            rows.append(missing(what, bar))
        else:
            tried = samples.total("moves") + samples.total("busy")
            enough = tried >= 1000 and (other != "threads" or samples.total("cuda_mallocs") > 0)
            rows.append([what, f"{spread(samples, 'stall')}; {samples.total('moves'):.0f} moved, "
                         f"{samples.total('busy'):.0f} busy", bar, verdict(enough or None)])
    return rows


def _nccl_rows(measured):
    rows = []
    for way, moves_min in (("live", 500), ("held", 100)):
        what = f"{way} moves beside NCCL all-reduces: tries a move; time lost"
        bar = f"no hang of {moves_min}, sums right, <= 5 %"
        samples = measured.get(f"live/nccl/{way}/64MiB")
        failed = [failure["reason"] for failure in measured.failed
                  if failure["step"] == "live_nccl" and
                  (samples is None or f"/{way}/" in failure["reason"])]
        if failed:
            rows.append([what, failed[0], bar, verdict(False)])
            continue
        if samples is None:
            rows.append(missing(what, bar))
            continue
        moved, busy = samples.total("moves"), samples.total("busy")
        lost = samples.counter("lost_share")
        tries = 1 + samples.total("retries") / (moved + busy) if moved + busy else None
        rows.append([what, f"{number(tries, 2)}; {share(lost)} at "
                     f"{samples.counter('moves_per_s'):.0f} moves/s; {moved:.0f} moved, "
                     f"{samples.total('chunks_live'):.0f} chunks live, {busy:.0f} busy; "
                     f"stall {spread(samples, 'stall')}", bar,
                     verdict(lost <= 0.05 if moved + busy >= moves_min else None)])
    return rows


def _attach_rows(measured):
    """Nothing: the median lies below the upper quartile of the other."""
    samples = measured.get("live/attach/launch")
    what, bar = "a launch on a stream that is attached / is not", "within the quartiles"
    if samples is None:
        return [missing(what, bar)]
    alone, attached = ([samples.counter(f"{name}_{part}_us") for part in ("low", "median", "high")]
                       for name in ("alone", "attached"))
    shown = " / ".join(f"{low:.2f}, {median:.2f}, {high:.2f} us"
                       for low, median, high in (attached, alone))
    return [[what, shown + " (quartiles)", bar, verdict(attached[1] <= alone[2])]]


def bar_rows(measured):
    rows = [row for rows_of in (_stall_rows, _size_rows, _rate_rows, _budget_rows, _drain_rows,
                                _host_rows, _beside_rows, _nccl_rows, _attach_rows)
            for row in rows_of(measured)]
    return measured_first(rows)


def _case_key(samples):
    parts = re.split(r"(\d+)", samples.name.rsplit("/", 1)[0])
    return [int(part) if part.isdigit() else part for part in parts], size_key(samples)[1]


STALL_HEADERS = ["streams/kernel/backlog/chunk", "moves", "busy", "stall median / p99 / max",
                 "skew median / p99 / max", "copied twice, MiB a move", "gates given up"]


def _case_rows(measured, pattern, headings):
    """A row a case: where it begins its name, what moved, how long it stopped, what was in the way."""
    rows = []
    for samples in sorted(measured.matching(pattern), key=_case_key):
        moves = samples.total("moves")
        twice_mib = samples.total("bytes_twice") / (1 << 20) / moves if moves else None
        rows.append([samples.name.split("/", headings)[-1], f"{moves:.0f}",
                     f"{samples.total('busy'):.0f}", spread(samples, "stall"),
                     spread(samples, "skew"), number(twice_mib, 1), reasons(samples)])
    return rows


def stall_rows(measured):
    return _case_rows(measured, "live/stall/.*", 2)


def beside_rows(measured):
    return _case_rows(measured, "live/beside/.*", 2)


def size_rows(measured):
    return _case_rows(measured, "live/size/.*", 2)


MODE_HEADERS = ["tiles dirty", "chunk", "live", "stopped", "held", "managed prefetch, whole"]


def mode_rows(measured):
    """Stall by share of tiles that are dirty; beside it, what a prefetch of as many bytes takes."""
    cases = sorted(measured.matching("live/modes/live/.*"), key=_case_key)
    rows = []
    for live in cases:
        dirty, size = live.name.split("/")[-2:]
        others = [measured.get(f"live/modes/{mode}/{dirty}/{size}") for mode in ("stopped", "held")]
        prefetch = measured.get(f"prefetch/gpu0-gpu1/{size}")
        rows.append([f"{dirty.removeprefix('dirty')} %", size,
                     *(spread(samples, "stall") if samples else "-" for samples in (live, *others)),
                     show_us(prefetch.median()) if prefetch else "-"])
    return rows


KERNEL_HEADERS = ["tile/blocks that copy/that settle, an SM", "GB/s", "settle a chunk", "switch a chunk",
                  "bandwidth-bound application loses"]


def kernel_rows(measured):
    return [[samples.name.split("/", 2)[2], number(samples.counter("rate_gb_s"), 1),
             show_us(samples.counter("settle_us")), show_us(samples.counter("switch_us")),
             share(samples.counter("lost_share"))]
            for samples in sorted(measured.matching("live/kernels/.*"), key=_case_key)]


COPY_HEADERS = ["copied and digested by", "GB/s", "bandwidth-bound kernels lose, source",
                "target"]


def copy_rows(measured):
    ways = {"kernel": "one kernel on the source's GPU",
            "engine": "the copy engine, then a kernel on the target's GPU"}
    return [[ways[samples.name.split("/")[2]], number(samples.counter("rate_gb_s")),
             share(samples.counter("source_lost_share")), share(samples.counter("target_lost_share"))]
            for samples in sorted(measured.matching("live/copy/.*"), key=_case_key, reverse=True)]


BESIDE_HEADERS = ["beside/chunk", *STALL_HEADERS[1:]]
SIZE_HEADERS = ["mode/bytes", *STALL_HEADERS[1:]]

TABLES = {
    "live_stall": (STALL_HEADERS, stall_rows),
    "live_size": (SIZE_HEADERS, size_rows),
    "live_modes": (MODE_HEADERS, mode_rows),
    "live_kernels": (KERNEL_HEADERS, kernel_rows),
    "live_copy": (COPY_HEADERS, copy_rows),
    "live_beside": (BESIDE_HEADERS, beside_rows),
    "live_bars": (BAR_HEADERS, bar_rows),
}
