"""The tables of the page, as HTML. Each number is there twice: as shown, and whole in `data-mean`
and `data-half`."""

import html
import json
import math

from vmart.lab.shown import half_width, number, unit_for
from vmart.lab.standings import MARKED

# Metric, heading, kind of unit, what it is.
COLUMNS = (
    ("cost_s", "cost", "seconds", "time of all accesses and of all moves"),
    ("regret", "regret", "share", "cost above the lower bound, over that bound"),
    ("slowdown", "slowdown", "times", "time of all accesses over what they take in their own HBM"),
    ("bytes_moved", "moved", "bytes", "bytes of all moves"),
    ("stall_s", "stall", "seconds", "sum of the stalls of all moves"),
    ("thrashes", "thrashes", "count", "moves back to where the chunk came from"),
    ("settle_s", "settle", "seconds", "from a mark of the trace until accesses are fast again, mean"),
    ("accesses_lost", "lost", "count", "accesses to objects without room"),
)
COUNTS = {metric for metric, _, kind, _ in COLUMNS if kind == "count"}
BEST = ' class="best"'
ROWS_MAX = 200  # Of a list of cells; a person reads no more, the frames have all.


def escaped(value):
    return html.escape(str(value))


def whole(value):
    return "" if math.isnan(value) else repr(float(value))


def policies_table(standings):
    """A row a policy, cheapest first; mean and half width over seeds."""
    rows = standings.rows
    scales = {metric: unit_for(kind, rows[f"{metric}_mean"]) for metric, _, kind, _ in COLUMNS}
    best = {metric: standings.best(metric) for metric in MARKED}
    head = "".join(heading(standings, column, scales[column[0]][0]) for column in COLUMNS)
    body = "".join(policy_row(row, scales, best) for _, row in rows.iterrows())
    return (f'<div class="scroll"><table class="policies" data-scenario="{escaped(standings.title)}">'
            f'<thead><tr><th scope="col">policy</th>{head}</tr></thead><tbody>{body}</tbody></table></div>')


def bound_note(standings):
    """The lower bound and the best plan that was found, means over seeds; nothing without a bound."""
    seeds = standings.cells.drop_duplicates("seed")
    bound, plan = seeds["lower_bound_s"].mean(), seeds["plan_s"].mean()
    if math.isnan(bound):
        return ""
    unit, worth = unit_for("seconds", [bound])
    found = "" if math.isnan(plan) else f"; the best plan that is known costs {number(plan / worth)} {unit}"
    return (f'<p class="note">No policy costs less than {number(bound / worth)} {unit} '
            f"({escaped(standings.bound_kinds)} bound){found}. Means over seeds.</p>")


def heading(standings, column, unit):
    metric, name, _, what = column
    if metric == "regret" and standings.bound_kinds:
        what += f": {standings.bound_kinds}"
        name += f" over {standings.bound_kinds} bound"
    shown_unit = f' <span class="unit">{escaped(unit)}</span>' if unit else ""
    return f'<th scope="col" title="{escaped(what)}">{escaped(name)}{shown_unit}</th>'


def policy_row(row, scales, best):
    policy = row["policy"]
    cells = "".join(value_cell(row, metric, scales[metric][1], policy in best.get(metric, ()))
                    for metric, _, _, _ in COLUMNS)
    kind = ' class="lossy"' if row["lossy"] else ""
    return f'<tr{kind} data-policy="{escaped(policy)}"><th scope="row">{escaped(policy)}</th>{cells}</tr>'


def value_cell(row, metric, worth, is_best):
    mean, half = row[f"{metric}_mean"], row[f"{metric}_half"]
    count, seeds = row[f"{metric}_count"], row["seeds"]
    text = number(mean / worth, metric in COUNTS)
    if not math.isnan(half) and (mean, half) != (0, 0):
        text += f' <span class="half">\u00b1\u202f{half_width(half / worth)}</span>'
    if 0 < count < seeds:
        text += f' <span class="half">({count} of {seeds} seeds)</span>'
    classes = ["best"] if is_best else []
    if metric == "accesses_lost" and mean > 0:
        classes.append("bad")
    kind = f' class="{" ".join(classes)}"' if classes else ""
    return (f'<td{kind} data-metric="{metric}" data-mean="{whole(mean)}" data-half="{whole(half)}">'
            f"{text}</td>")


def overview_table(all_standings):
    """Cost over that of the cheapest policy, a column a scenario, and the geometric mean of them. A
    policy is left out where it lost accesses."""
    ratios, best = {}, {}
    for column, standings in enumerate(all_standings):
        sound = standings.rows[~standings.rows["lossy"]]
        best[column] = standings.best("cost_s")
        least = sound["cost_s_mean"].min()
        for _, row in sound.iterrows():
            ratio_here = row["cost_s_mean"] / least if least > 0 else math.nan
            ratios.setdefault(row["policy"], {})[column] = ratio_here
    if not ratios:
        return ""
    means = {policy: geometric_mean(found.values()) if len(found) == len(all_standings) else math.nan
             for policy, found in ratios.items()}
    order = sorted(ratios, key=lambda policy: (math.isnan(means[policy]), means[policy]))
    lowest = min((mean for mean in means.values() if not math.isnan(mean)), default=math.nan)
    head = "".join(f'<th scope="col">{escaped(each.trace)}<br><span class="unit">{escaped(each.machine)}'
                   f", {escaped(each.router)}</span></th>" for each in all_standings)
    body = "".join(overview_row(policy, ratios[policy], means[policy], lowest, best)
                   for policy in order)
    return (f'<div class="scroll"><table class="overview"><thead><tr><th scope="col">policy</th>'
            f'<th scope="col">all</th>{head}</tr></thead><tbody>{body}</tbody></table></div>')


def geometric_mean(values):
    values = list(values)
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def overview_row(policy, found, mean, lowest, best):
    cells = "".join(f'<td{BEST if policy in policies else ""}>{ratio(found.get(column, math.nan))}</td>'
                    for column, policies in best.items())
    kind = BEST if mean == lowest else ""
    return (f'<tr><th scope="row">{escaped(policy)}</th><td{kind}>{ratio(mean)}</td>{cells}</tr>')


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
