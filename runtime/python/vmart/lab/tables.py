"""The tables of the page, as HTML. Each number is there twice: as shown, and whole in `data-mean`
and `data-half`."""

import html
import json
import math

from vmart.lab.baseline import WORSE, all_against, has_baseline, interval, live_seeds, ratios_of, times_by_policy, times_of
from vmart.lab.kinds import BASELINE
from vmart.lab.measure import MAKESPAN, TIGHT
from vmart.lab.shown import half_width, number, unit_for
from vmart.lab.spread import geometric_mean
from vmart.lab.standings import SEEDS_LEAST

# Metric, heading, kind of unit, what it is.
COLUMNS = (
    ("time_s", "", "seconds", ""),  # As the measure says.
    ("excess_ratio", "excess", "share", "cost above that of accesses that are all local and never wait, over it"),
    ("regret", "regret", "share", "time above the lower bound, over that bound, where it was shown to be tight"),
    ("over_plan", "over hindsight", "times", "time over that of the best plan that was found, which knows the trace"),
    ("slowdown", "slowdown", "times", "time of all accesses over what they take in their own HBM"),
    ("bytes_moved", "moved", "bytes", "bytes of all moves"),
    ("stopped_s", "stopped", "seconds", "time that devices with work were stopped at gates, summed over devices"),
    ("thrashes", "thrashes", "count", "moves back to where the chunk came from"),
    ("rest_s", "rest", "seconds", "from a mark of the trace until accesses are fast again, mean"),
    ("accesses_lost", "lost", "count", "accesses to objects without room"),
)
COUNTS = {metric for metric, _, kind, _ in COLUMNS if kind == "count"}
TIMES = {MAKESPAN: "from the first event to the end of the last access",
         "cost_s": "time of all accesses, of their waiting, and of all moves"}
BEST = ' class="best"'
FEWEST = 5  # Numbers of which something is said in colour.
BASELINE_HEADING = (f'<th scope="col" title="time over that of the same cell under {BASELINE}, which moves nothing">'
                    f'against {BASELINE} <span class="unit">\u00d7</span></th>')
ROWS_MAX = 200  # Of a list of cells; a person reads no more, the frames have all.


def escaped(value):
    return html.escape(str(value))


def whole(value):
    return "" if math.isnan(value) else repr(float(value))


def policies_table(standings):
    """A row a policy, the lowest time first; mean and half width over seeds."""
    rows, best = standings.rows, standings.best()
    scales = {metric: unit_for(kind, rows[f"{metric}_mean"]) for metric, _, kind, _ in COLUMNS}
    head = "".join(heading(standings, column, scales[column[0]][0]) for column in COLUMNS)
    beside = {}
    if ratios_of(standings, BASELINE):
        head = BASELINE_HEADING + head
        beside = {policy: baseline_cell(standings, policy) for policy in rows["policy"]}
    body = "".join(policy_row(standings, row, scales, row["policy"] in best, beside) for _, row in rows.iterrows())
    return (f'<div class="scroll"><table class="policies" data-scenario="{escaped(standings.title)}">'
            f'<thead><tr><th scope="col">policy</th>{head}</tr></thead><tbody>{body}</tbody></table></div>')


def live_note(standings):
    """Whether there is anything to tell policies apart by."""
    live, seeds = len(live_seeds(standings)), standings.seeds
    if sum(not times.empty for times in times_by_policy(standings).values()) < 2:
        return "Nothing to compare: fewer than two policies have a time without lost accesses."
    if seeds == 1:
        return "" if live else "Dead: no policy differs by more than 1 %."
    return f"Policies differ by more than 1 % with {live} of {seeds} seeds." if live else \
        f"Dead: no policy differs by more than 1 % with any of {seeds} seeds."


def bound_note(standings):
    """The lower bound, the best plan that was found, means over seeds, and whether the bound is tight; nothing
    without a bound."""
    seeds = standings.cells.drop_duplicates("seed")
    bound, plan = seeds["lower_bound_s"].mean(), seeds["plan_s"].mean()
    if math.isnan(bound):
        return ""
    unit, worth = unit_for("seconds", [bound])
    what = "No makespan is" if standings.measure == MAKESPAN else "Accesses and moves take no policy"
    than = "below" if standings.measure == MAKESPAN else "less than"
    found = "" if math.isnan(plan) else f"; the best plan that was found takes {number(plan / worth)} {unit}"
    return (f'<p class="note">{what} {than} {number(bound / worth)} {unit} '
            f"({escaped(standings.bound_kinds)} bound){found}. {tight_note(seeds)}</p>")


def tight_note(seeds):
    tight, known = int(seeds["bound_tight"].sum()), int(seeds["bound_tight"].count())
    if tight == known:
        return "The bound was shown to be tight." if known == 1 else f"It was shown to be tight for all {known} seeds."
    of = "" if known == 1 else f" for {known - tight} of {known} seeds"
    return (f"Nothing that is known comes within {100 * TIGHT:.0f} % of the bound{of}: it may be far below what is "
            "possible, and there is no regret over it.")


def heading(standings, column, unit):
    metric, name, _, what = column
    if metric == "time_s":
        name, what = standings.time_name, TIMES[standings.measure]
    if metric == "regret" and standings.bound_kinds:
        what += f": {standings.bound_kinds}"
        name += f" over {standings.bound_kinds} bound"
    shown_unit = f' <span class="unit">{escaped(unit)}</span>' if unit else ""
    return f'<th scope="col" title="{escaped(what)}">{escaped(name)}{shown_unit}</th>'


def policy_row(standings, row, scales, is_best, beside):
    policy = row["policy"]
    cells = beside.get(policy, "")
    for metric, _, _, _ in COLUMNS:
        of_time = metric == "time_s"
        cells += value_cell(row, metric, scales[metric][1], is_best and of_time, standings.bound_s if of_time else 0.0)
    kind = ' class="lossy"' if row["lossy"] else ""
    return f'<tr{kind} data-policy="{escaped(policy)}"><th scope="row">{escaped(policy)}</th>{cells}</tr>'


def baseline_cell(standings, policy):
    """Time over that of `static` with the same seeds: geometric mean, its interval, seeds in which it is worse. It
    is red if enough seeds tell that it is worse."""
    ratios = ratios_of(standings, policy)
    if not ratios:
        return '<td data-baseline="">\u2013</td>'
    mean, low, high = interval(standings, ratios, times_of(standings, BASELINE))
    text = ratio(mean)
    if low < high:
        text += f' <span class="half">({ratio(low)} to {ratio(high)})</span>'
    worse = sum(each > WORSE for each in ratios.values())
    if worse and len(ratios) > 1:
        text += f' <span class="half">(worse with {worse} of {len(ratios)} seeds)</span>'
    kind = ' class="bad"' if len(ratios) >= SEEDS_LEAST and low > WORSE else ""
    return f'<td{kind} data-baseline="{whole(mean)}">{text}</td>'


def baseline_table(all_standings):
    """Each policy against `static` over scenarios of one kind: how often it does harm, and how much."""
    if not has_baseline(all_standings):
        return (f'<p class="note">There is no policy <code>{BASELINE}</code> in this experiment to compare '
                "with: what moving is worth cannot be said.</p>")
    head = "".join(f'<th scope="col">{name}</th>' for name in (
        "policy", f"time over {BASELINE}", "cells", "live", "worse by &gt; 1 %", "worst", "where"))
    body = "".join(baseline_row(each) for each in all_against(all_standings))
    return ('<div class="scroll"><table class="baseline"><thead><tr>' + head
            + f"</tr></thead><tbody>{body}</tbody></table></div>")


def baseline_row(against):
    mean = ratio(against.mean)
    if against.compared < against.scenarios:
        mean += f' <span class="half">({against.compared} of {against.scenarios} comparable)</span>'
    kind = ' class="bad"' if against.worse and against.live >= FEWEST else ""
    where = escaped(against.worst_in) if against.worst > WORSE else ""
    return (f'<tr data-policy-against="{escaped(against.policy)}"><th scope="row">{escaped(against.policy)}</th>'
            f"<td>{mean}</td><td>{len(against.ratios)}</td><td>{against.live}</td>"
            f"<td{kind}>{against.worse} of {against.live} live</td>"
            f'<td{kind}>{ratio(against.worst)}</td><td class="text">{where}</td></tr>')


def made_from_table(made_from):
    """The version of the program, and the checksum of each trace."""
    made_from = made_from.dropna(subset=["trace_sum"])
    if len(made_from) == 0:
        return ""
    versions = ", ".join(sorted(set(made_from["version"].dropna())))
    rows = [[row["trace"], float(row["seed"]), str(row["trace_sum"])] for _, row in made_from.iterrows()]
    return (f"<h3>Made from</h3><p>vmart-lab {escaped(versions)}, and traces with these checksums:</p>"
            + plain_table("failed", ["trace", "seed", "checksum"], rows))


def value_cell(row, metric, worth, is_best, least=0.0):
    """`least` is what no value is below, so neither is its interval."""
    mean, half = row[f"{metric}_mean"], row[f"{metric}_half"]
    count, seeds = row[f"{metric}_count"], row["seeds"]
    text = number(mean / worth, metric in COUNTS)
    if not math.isnan(half) and (mean, half) != (0, 0):
        text += f' <span class="half">{spread(mean, half, min(least, mean), worth)}</span>'
    if 0 < count < seeds:
        text += f' <span class="half">({count} of {seeds} seeds)</span>'
    classes = ["best"] if is_best else []
    if metric == "accesses_lost" and mean > 0:
        classes.append("bad")
    kind = f' class="{" ".join(classes)}"' if classes else ""
    return (f'<td{kind} data-metric="{metric}" data-mean="{whole(mean)}" data-half="{whole(half)}">'
            f"{text}</td>")


def spread(mean, half, least, worth):
    """The 95 % interval: a half width, or its ends if one of them would be below `least`."""
    if mean - half >= least:
        return f"\u00b1\u202f{half_width(half / worth)}"
    return f"({number(least / worth)} to {number((mean + half) / worth)})"


def overview_table(all_standings):
    """Time over that of the fastest policy, a column a scenario, and the geometric mean of them. A
    policy is left out where it lost accesses."""
    ratios, best = {}, {}
    for column, standings in enumerate(all_standings):
        sound = standings.rows[~standings.rows["lossy"]]
        best[column] = standings.best()
        least = sound["time_s_mean"].min()
        for _, row in sound.iterrows():
            ratio_here = row["time_s_mean"] / least if least > 0 else math.nan
            ratios.setdefault(row["policy"], {})[column] = ratio_here
    if not ratios:
        return ""
    means = {policy: geometric_mean(found.values()) if len(found) == len(all_standings) else math.nan
             for policy, found in ratios.items()}
    order = sorted(ratios, key=lambda policy: (math.isnan(means[policy]), means[policy]))
    head = "".join(f'<th scope="col">{escaped(each.trace)}<br><span class="unit">{escaped(each.machine)}'
                   f", {escaped(each.router)}{'' if live_seeds(each) else ', dead'}</span></th>" for each in all_standings)
    body = "".join(overview_row(policy, ratios[policy], means[policy], best)
                   for policy in order)
    return (f'<div class="scroll"><table class="overview"><thead><tr><th scope="col">policy</th>'
            f'<th scope="col">all</th>{head}</tr></thead><tbody>{body}</tbody></table></div>')


def overview_row(policy, found, mean, best):
    cells = "".join(f'<td{BEST if policy in policies else ""}>{ratio(found.get(column, math.nan))}</td>'
                    for column, policies in best.items())
    return f'<tr><th scope="row">{escaped(policy)}</th><td>{ratio(mean)}</td>{cells}</tr>'


def ratio(value):
    return "\u2013" if math.isnan(value) else f"{value:.3f}"


def asked_table(experiment):
    """What the experiment file says, but for its name and purpose."""
    rows = [(key, value) for key, value in experiment.items() if key not in ("experiment", "about")]
    body = "".join(f'<tr><th scope="row">{escaped(key)}</th><td>{asked_value(value)}</td></tr>'
                   for key, value in rows)
    return f'<div class="scroll"><table class="asked"><tbody>{body}</tbody></table></div>'


def asked_value(value):
    values = value if isinstance(value, list) else [value]
    return " ".join(f"<code>{escaped(asked_text(each))}</code>" for each in values)


def asked_text(value):
    """A machine, trace or policy of the experiment in words: its name, then all that it says."""
    if not isinstance(value, dict):
        return value if isinstance(value, str) else json.dumps(value)
    texts = []
    for key, member in value.items():
        if isinstance(member, dict):
            texts += [f"{name}={asked_text(inner)}" for name, inner in member.items()]
        else:
            texts.append(asked_text(member) if key in ("name", "policy") else f"{key} {asked_text(member)}")
    return ", ".join(texts)


def plain_table(kind, headings, rows):
    """Rows of texts and numbers; those over ROWS_MAX are counted instead."""
    head = "".join(f'<th scope="col">{escaped(each)}</th>' for each in headings)
    body = "".join("<tr>" + "".join(plain_cell(each) for each in row) + "</tr>" for row in rows[:ROWS_MAX])
    more = f"<p>and {len(rows) - ROWS_MAX} more</p>" if len(rows) > ROWS_MAX else ""
    return (f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>{more}")


def plain_cell(value):
    text = value if isinstance(value, str) else number(float(value), whole=True)
    return f'<td class="text">{escaped(text)}</td>' if isinstance(value, str) else f"<td>{text}</td>"
