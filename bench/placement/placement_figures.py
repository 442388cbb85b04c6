"""The tables of the scheduler: what placement_bench measured, and the bars that it is held against."""

import re

from harness.samples import BAR_HEADERS, missing, number, share, show_us, verdict


def _counted(measured, pattern, counter):
    """(name, the counter's median) of each benchmark that matches and has it."""
    found = [(samples.name, samples.counter(counter)) for samples in measured.matching(pattern)]
    return [(name, value) for name, value in found if value is not None]


def _bar(measured, what, pattern, counter, bar, holds, show):
    """A row for each benchmark that has the counter, or one that says that none has. `holds` is None
    where there is no bar."""
    found = _counted(measured, pattern, counter)
    if not found:
        return [missing(what, bar)]
    return [[f"{what}, {name.split('/', 1)[1]}", show(value), bar, verdict(holds(value)) if holds else ""]
            for name, value in found]


def _lost_rows(measured, what, pattern, bar, holds, without):
    """With how far stretches without what is measured lie apart: what is less than that is not seen."""
    rows = _bar(measured, what, pattern, "lost_share", bar, holds, share)
    spreads = dict(_counted(measured, pattern, "spread_share"))
    for row in rows:
        spread = spreads.get(row[0].replace(f"{what}, ", "placement/"))
        if spread is not None:
            row[1] += f" ({without}, rounds spread {share(spread)})"
    return rows


def _recovery_rows(measured):
    """After the slowest drift; a phase in which the program does not recover misses the bar."""
    what, bar = "back at 90 % of the best placement, slowest phase", "<= 1 s"
    rows = []
    for samples in measured.matching("placement/drift/.*"):
        longest_ms = samples.counter("recovery_most_ms")
        if longest_ms is None:
            continue
        phases = sum(name.endswith("_recovered_count") for name in samples.counters)
        recovered = samples.counter("recovered_count") == phases
        rows.append([f"{what}, {samples.name.split('/', 1)[1]}", _recovery(longest_ms, recovered), bar,
                     verdict(recovered and longest_ms <= 1000)])
    return rows or [missing(what, bar)]


def _recovery(longest_ms, recovered):
    return show_us(1000 * longest_ms) if recovered else f"not within {longest_ms / 1000:.1f} s"


def bar_rows(measured):
    return [
        *_bar(measured, "`record_use`", "use_log/single.*", "ns_per_use", "<= 15 ns",
              lambda value: value <= 15, lambda value: f"{value:.1f} ns"),
        *_bar(measured, "`record_use` with the time, as recordings ask for it", "use_log/stamped/.*",
              "ns_per_use", "<= 30 ns", lambda value: value <= 30, lambda value: f"{value:.1f} ns"),
        *_bar(measured, "`record_launch` of six pointers", "record_launch/[a-z]+/threads.*",
              "ns_per_launch", "<= 500 ns", lambda value: value <= 500,
              lambda value: f"{value:.0f} ns"),
        *_bar(measured, "`advise` to the policy, p99", "placement/advise", "advise_p99_us", "<= 200 us",
              lambda value: value <= 200, show_us),
        *_bar(measured, "two threads that wake each other, p99", "placement/advise",
              "two_wakes_p99_us", "shown", None, show_us),
        *_bar(measured, "tick, 1 % used since the last", "placement/tick/.*", "tick_median_us",
              "<= 1 ms", lambda value: value <= 1000, show_us),
        *_bar(measured, "the policy alone", "policy/cost_benefit/tick/.*/50000", "median_us",
              "<= 1 ms", lambda value: value <= 1000, show_us),
        *_bar(measured, "the policy alone", "policy/cost_benefit/tick/.*/1000000", "median_us",
              "<= 10 ms", lambda value: value <= 10000, show_us),
        *_bar(measured, "books a chunk, besides heat", "placement/tick/.*", "table_bytes_a_chunk",
              "<= 64 bytes", lambda value: value <= 64, number),
        *_lost_rows(measured, "lost to an idle scheduler", "placement/idle/.*", "< 1 %",
                    lambda value: value < 0.01, "without one"),
        *_bar(measured, "of the raw link", "placement/park/.*", "park_of_raw_share", ">= 85 %",
              lambda value: value >= 0.85, share),
        *_bar(measured, "of the raw link, back", "placement/park/.*", "resume_of_raw_share", ">= 85 %",
              lambda value: value >= 0.85, share),
        *_bar(measured, "of the best placement, least of all phases", "placement/drift/.*",
              "of_best_least_share", ">= 95 %", lambda value: value >= 0.95, share),
        *_recovery_rows(measured),
        *_bar(measured, "of the best placements, from drift to drift", "placement/drift/.*",
              "whole_run_share", ">= 85 %", lambda value: value >= 0.85, share),
        *_lost_rows(measured, "lost to moves while hot sets flicker", "placement/flicker/.*", "<= 2 %",
                    lambda value: value <= 0.02, "in dry runs"),
        *_bar(measured, "moves a second while hot sets flicker", "placement/flicker/.*", "moves_per_s",
              "shown", None, lambda value: f"{value:.1f}"),
        *_bar(measured, "of what shares and bandwidths allow", "placement/oversubscribed/.*",
              "of_best_share", ">= 85 %", lambda value: value >= 0.85, share),
        *_bar(measured, "error of foretold moves, median", "placement/prediction/.*",
              "move_error_median_share", "<= 10 %", lambda value: value <= 0.1, share),
    ]


def _settled(samples, prefix=""):
    """When the last move was seen, and whether moves had ceased."""
    last_ms, settled = (samples.counter(f"{prefix}settled_{what}") for what in ("ms", "count"))
    if last_ms is None or settled is None:
        return "-"
    return f"{last_ms / 1000:.1f} s" if settled else "not yet"


def _recovered(samples, prefix):
    """When the program read 90 % of what it would with the best placement."""
    after_ms, recovered = (samples.counter(prefix + what) for what in ("recovery_ms", "recovered_count"))
    if after_ms is None or recovered is None:
        return "-"
    return f"{after_ms / 1000:.2f} s" if recovered else "never"


DRIFT_HEADERS = ["GPUs, phase", "scheduler, GB/s", "best static", "second best", "first touch",
                 "managed memory", "of the best", "settled after", "at 90 % after", "whole phase"]


def drift_rows(measured):
    rows = []
    for samples in measured.matching("placement/drift/.*"):
        managed = measured.first(samples.name.replace("placement", "managed"))
        phases = sorted({int(found[1]) for name in samples.counters
                         if (found := re.match(r"phase(\d+)_", name))})
        for phase in phases:
            of_phase = [samples.counter(f"phase{phase}_{what}_gb_s")
                        for what in ("scheduler", "best", "second", "first_touch")]
            rows.append([f"{samples.name.split('/')[2].removeprefix('gpus')}, {phase}",
                         *(number(value) for value in of_phase),
                         number(managed and managed.counter(f"phase{phase}_managed_gb_s")),
                         share(samples.counter(f"phase{phase}_of_best_share")),
                         _settled(samples, f"phase{phase}_"), _recovered(samples, f"phase{phase}_"),
                         share(samples.counter(f"phase{phase}_course_share"))])
    return rows


OVERSUBSCRIBED_HEADERS = ["read from the hot fifth", "GB/s", "all in HBM", "all at the host",
                          "best that is possible", "of that", "hot fifth in HBM", "settled after"]


def oversubscribed_rows(measured):
    rows = []
    for samples in measured.matching("placement/oversubscribed/.*"):
        permille = int(samples.name.split("hot")[-1])
        rates = [samples.counter(name + "_gb_s") for name in ("rate", "all_hbm", "all_host", "best")]
        rows.append([f"{permille / 10:.1f} %", *(number(rate) for rate in rates),
                     share(samples.counter("of_best_share")),
                     share(samples.counter("hot_in_hbm_share")), _settled(samples)])
    return rows


TABLES = {
    "placement_bars": (BAR_HEADERS, bar_rows),
    "placement_drift": (DRIFT_HEADERS, drift_rows),
    "placement_oversubscribed": (OVERSUBSCRIBED_HEADERS, oversubscribed_rows),
}
