"""Writes what people read of a result folder: `report.html` and `results.parquet`."""

import pathlib

from vmart.lab import load
from vmart.lab.baseline import has_baseline, interval, ratios_of, times_of
from vmart.lab.errors import MissingLibrary, library
from vmart.lab.failures import failed_section, status_line
from vmart.lab.kinds import BASELINE, by_kind
from vmart.lab.page import page
from vmart.lab.shares import crowd_warnings, share_note
from vmart.lab.standings import SEEDS_LEAST, all_standings
from vmart.lab.tables import (asked_table, baseline_table, bound_note, escaped, made_from_table, overview_table,
                              live_note, policies_table)
from vmart.lab.whole_file import write_whole

PICTURED_MAX = 48  # Cells with pictures of their own, about 30 KB each.

READING = """<p><b>Time</b> is what policies are ranked by, the measure of a cell: the <b>makespan</b> of a closed loop, in which work
waits for what it needs, from the first event to the end of the last access; the <b>cost</b> of an open one, whose makespan no
policy can change: the time of all accesses, from arrival to end, and of all moves but for their stalls, as if
each went by itself. Time at gates is in the times of the accesses that stand there. <b>Excess</b> is how far cost is above
the time of the same accesses if all were local and none waited, over that time.</p>
<p>A <b>bound</b> is what no policy's makespan is below in a closed loop, and in an open one what accesses and moves
together take any policy, without waiting. It may be far below what is possible. So <b>regret</b>, how far above it a policy
is, stands only where the bound was shown to be tight: it is exact, or a plan or policy is known within 10 % of it. There is none where
accesses were lost, or where the router's choices depend on the replay. <b>Over hindsight</b> is the same time over that of the best plan that
was found with the whole trace known; in a closed loop it puts each object at one place, and moves nothing. A policy may be faster.</p>
<p><b>Against static</b> is time over that of <code>static</code> in the same cell, which places memory at its first use and
moves none. A cell is worse if it takes more than 1 % more, and <b>live</b> if any policy takes more than 1 % more or less; others say
nothing of policies. Cells in which one of both lost accesses are not compared. Means of ratios are
geometric, each machine, trace and router once, and only over traces of one kind.</p>
<p>\u00b1 is the half width of the 95 % interval of the mean over seeds (Student's t), of ratios that of their logarithms; where it would
reach below a bound or 0, its ends stand instead. One seed has none. Seeds that give the same numbers count once. Green is the lowest mean
time, and every policy within 5 % that the seeds cannot tell from it: the interval of their ratio, seed by seed, reaches 1. Nothing is
green if that holds for all. Of fewer than five seeds, nothing is green or red. A policy
that lost accesses has done less than the others; it stands last and is nowhere best. Dots are seeds, lines their means.</p>
<p>Pictures over time have at most 400 points: of neighbouring windows the bytes at the last one's end, and the sums of the rest.</p>"""


def pictured_ids(standings, pictured_max=PICTURED_MAX, wanted=()):
    """Ids of the cells that get pictures: those wanted, then the fastest policy of each scenario,
    then the next ones. Of the seeds the first."""
    queues = [first_ids(each) for each in standings]
    chosen = dict.fromkeys(wanted)
    for rank in range(max(map(len, queues), default=0)):
        for queue in queues:
            if rank < len(queue) and len(chosen) < pictured_max:
                chosen[queue[rank]] = None
    return list(chosen)


def first_ids(standings):
    first = standings.cells.drop_duplicates("policy").set_index("policy")["id"]
    return [first[policy] for policy in standings.rows["policy"]]


def cell_pictures(results, standings, chosen):
    """Pictures by name, and what the choices on the page are."""
    from vmart.lab import pictures

    figures, scenarios, number = {}, [], 0
    for each in standings:
        ids = dict(zip(each.cells["id"], zip(each.cells["policy"], each.cells["seed"])))
        order = [*dict.fromkeys(identity for identity in (*first_ids(each), *ids) if identity in chosen)]
        if not order:
            continue
        lines, cells = {}, []
        for identity in order:
            policy, seed = ids[identity]
            drawn = pictures.TimeLines(results.cell(identity))
            lines.setdefault(policy, drawn)
            figures[f"time-{number}"] = pictures.time_line(drawn)
            if len(drawn.routes):
                figures[f"moves-{number}"] = pictures.heat_map(drawn)
            if drawn.links:
                figures[f"links-{number}"] = pictures.link_bars(drawn)
            cells.append({"number": number, "id": identity, "policy": f"{policy}, seed {seed}"})
            number += 1
        figures[f"slowdown-{len(scenarios)}"] = pictures.overlaid_slowdowns(lines)
        scenarios.append({"title": each.title, "cells": cells})
    return figures, scenarios


def comparison(standings):
    """The section of dots, with its figures: time over that of `static`, or the times themselves without it."""
    from vmart.lab import pictures

    against = has_baseline(standings)
    title = f"time over that of {BASELINE}" if against else "time, s"

    def spread(each, policy):
        numbers = (ratios_of if against else times_of)(each, policy)
        return numbers, numbers and interval(each, numbers, times_of(each, BASELINE) if against else {})

    figures, parts = {}, []
    for machine, router in dict.fromkeys((each.machine, each.router) for each in standings):
        group = [each for each in standings if (each.machine, each.router) == (machine, router)]
        name = f"compared-{len(figures)}"
        figures[name] = pictures.dots(group, spread, title)
        traces = escaped(group[0].trace) + ", " if len(group) == 1 else ""
        parts.append(f"<h3>{traces}{escaped(machine)}, router {escaped(router)}</h3>"
                     f'<div class="figure" id="figure-{name}" data-figure="{name}"></div>')
    return "".join(parts), figures


def policies_section(results, standings):
    parts = []
    for heading, group in by_kind(standings):
        parts.append(f'<h3 class="kind">{heading}</h3>' + baseline_table(group))
        if len(group) > 1:
            parts.append("<h3>Time over that of the fastest policy</h3>" + overview_table(group))
        parts += [scenario_part(results, each) for each in group]
    return "\n".join(parts) or "<p>No cell has finished.</p>"


def scenario_part(results, standings):
    shares = share_note(results, standings)
    few = (f"Fewer than {SEEDS_LEAST} seeds: no policy is marked as the best or as worse." if standings.seeds_are_few else "")
    notes = "".join(f'<p class="note">{escaped(note)}</p>' for note in (live_note(standings), shares, few) if note)
    return f"<h3>{escaped(standings.title)}</h3>" + bound_note(standings) + notes + policies_table(standings)


def warnings(results):
    """What the reader should know before any number: most accesses are on one device."""
    return "".join(f'<p class="status failed">{escaped(warning)}</p>' for warning in crowd_warnings(results))


def time_section(scenarios, cells_count, pictured_count):
    if not scenarios:
        return "<p>No cell has finished.</p>"
    fewer = (f'<p class="note">{pictured_count} of {cells_count} cells have pictures; '
             "<code>--picture ID</code> adds one.</p>" if pictured_count < cells_count else "")
    return (f'{fewer}<h3>Slowdown of the fastest policies</h3><div class="figure" id="figure-slowdown"></div>'
            '<h3>Placement, moves and slowdown of <code id="cell-id"></code></h3>'
            '<div class="figure" id="figure-time"></div>')


def build_page(results, pictured_max=PICTURED_MAX, wanted=()):
    """The page's text, the same for the same folder."""
    library("plotly")
    from plotly.offline import get_plotlyjs

    standings = all_standings(results)
    chosen = pictured_ids(standings, pictured_max, wanted)
    figures, scenarios = cell_pictures(results, standings, set(chosen))
    bars, bar_figures = comparison(standings)
    experiment = results.experiment
    sections = {
        "asked": asked_table(experiment) + made_from_table(results.made_from),
        "policies": policies_section(results, standings),
        "compared": bars or "<p>No cell has finished.</p>",
        "time": time_section(scenarios, len(results.ids), len(chosen)),
        "moves": '<p class="note">GiB that the chosen policy moved, from the place of the row to that of the column.</p>'
                 '<p id="no-moves" hidden>It moved nothing.</p><div class="figure" id="figure-moves"></div>',
        "links": '<p class="note">With the chosen policy, over the whole replay, by moves and accesses.</p>'
                 '<div class="figure" id="figure-links"></div>',
        "failed": failed_section(results), "reading": READING,
    }
    return page(str(experiment.get("experiment", results.folder.name)), str(experiment.get("about", "")),
                status_line(results) + warnings(results), sections, bar_figures | figures, scenarios, get_plotlyjs())


def write_report(folder, pictured_max=PICTURED_MAX, wanted=(), say=print):
    """Writes both files and says so; returns their paths. Without pyarrow there is no parquet."""
    results = load(folder)
    known = set(results.distinct["id"]) if len(results.cells) else ()
    unknown = [identity for identity in wanted if identity not in known]
    if unknown:
        raise ValueError(f"there is no finished cell {unknown[0]}, or it is equal to that of another seed")
    written = [pathlib.Path(folder) / "report.html"]
    write_whole(written[0], build_page(results, pictured_max, wanted).encode("utf-8"))
    try:
        library("pyarrow")
    except MissingLibrary as error:
        say(f"skipped results.parquet: {error}")
    else:
        written.append(pathlib.Path(folder) / "results.parquet")
        write_whole(written[1], results.cells.to_parquet(engine="pyarrow", index=False))
    for path in written:
        say(str(path))
    return written
