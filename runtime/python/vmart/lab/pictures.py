"""The pictures of the page, as Plotly's figures without colours of text and grid: `page.js` sets
those, for they differ between light and dark. Series have 32-bit numbers, which Plotly packs."""

import numpy
import plotly.graph_objects as graph
from plotly.subplots import make_subplots

from vmart.lab.downsampling import group_length, last_of, ratio_of, summed
from vmart.lab.results import marks_of, resident_of, routes_of, windows_of

# Okabe and Ito's colours, which colour-blind readers tell apart, in tones that stand on white and on
# black.
COLOURS = ("#1f83c0", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a52b", "#8073ac")
HOSTS = ("#8a8f98", "#b4b8bf", "#6b7078", "#d0d3d8")
DASHES = ("solid", "dash", "dot", "dashdot")
HEAT = ((0.0, "rgba(31,131,192,0.06)"), (1.0, "rgba(31,131,192,0.95)"))
GIB = 2.0**30
PLACES_MAX = 16       # More are drawn as the sum of the GPUs and that of the hosts.
OVERLAY_MAX = 8       # Policies in one picture of slowdowns.
MARKS_NAMED_MAX = 12  # More are lines without a name.
MARKS_MAX = 200


def finished(figure, height, **layout):
    figure.update_layout(template={}, height=height, margin={"l": 70, "r": 20, "t": 34, "b": 48},
                         legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
                         font={"size": 12}, **layout)
    return figure


def plain(text):
    """`text` as it is: Plotly would take some of it for HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def packed(values):
    return numpy.asarray(values, dtype="float32")


def dots(all_standings, spread, title):
    """A row a policy, a colour a trace: a dot for each seed, and their mean with its interval. `spread(standings, policy)`
    are both, numbers by seed first. They are times over another, so 0.5 is as far from 1 as 2 is."""
    figure = graph.Figure()
    policies, count = [], 0
    for index, standings in enumerate(all_standings):
        both = {policy: spread(standings, policy) for policy in standings.rows["policy"]}
        found = {policy: numbers for policy, (numbers, _) in both.items() if numbers}
        policies += [policy for policy in found if policy not in policies]
        count += len(found)
        spans = numpy.array([both[policy][1] for policy in found]).reshape(-1, 3)
        means, ends = spans[:, 0], numpy.where(numpy.isnan(spans), spans[:, :1], spans)
        trace = plain(standings.trace)
        colour = COLOURS[index % len(COLOURS)]
        of_trace = {"mode": "markers", "orientation": "h", "offsetgroup": str(index), "legendgroup": str(index),
                    "name": trace}
        figure.add_scatter(
            y=[plain(policy) for policy in found], x=list(means),
            marker={"color": colour, "symbol": "line-ns-open", "size": 14, "line": {"width": 2.5}},
            error_x={"type": "data", "symmetric": False, "array": list(ends[:, 2] - means),
                     "arrayminus": list(means - ends[:, 1]), "visible": bool((ends[:, 2] > means).any()),
                     "thickness": 1.2, "width": 3},
            hovertemplate="%{y}: mean %{x:.4g}<extra>%{fullData.name}</extra>", **of_trace)
        seeds = [(policy, seed, number) for policy, numbers in found.items() for seed, number in numbers.items()]
        figure.add_scatter(
            y=[plain(policy) for policy, _, _ in seeds], x=[number for _, _, number in seeds],
            customdata=[seed for _, seed, _ in seeds], showlegend=False,
            marker={"color": colour, "size": 6, "opacity": 0.7},
            hovertemplate="%{y}, seed %{customdata}: %{x:.4g}<extra>%{fullData.name}</extra>", **of_trace)
    figure.update_yaxes(categoryorder="array", categoryarray=[plain(policy) for policy in policies[::-1]],
                        automargin=True, showgrid=False)
    figure.update_xaxes(title={"text": title}, type="log")
    return finished(figure, 110 + 22 * len(policies) + 14 * count, scattermode="group",
                    showlegend=len(all_standings) > 1)


class TimeLines:
    """What is drawn of one cell over time, from one reading of its file."""

    def __init__(self, cell):
        windows = windows_of(cell)
        self.length = group_length(len(windows))
        self.seconds = last_of(windows["end_s"], self.length)
        step_s = float(windows["end_s"].iloc[0]) * self.length if len(windows) else 1.0
        self.slowdown = ratio_of(windows["access_s"], windows["local_s"], self.length)
        self.moved_rate = summed(windows["bytes_moved"], self.length) / GIB / step_s
        self.resident = self._resident(resident_of(cell))
        self.marks = marks_of(cell).head(MARKS_MAX)
        self.routes = routes_of(cell)
        self.links = cell.links

    def _resident(self, frame):
        places = {place: last_of(frame[place], self.length) / GIB for place in frame.columns[1:]}
        if len(places) <= PLACES_MAX:
            return places
        sums = {}
        for place, values in places.items():
            kind = "all " + place.partition("(")[0]
            sums[kind] = sums.get(kind, 0) + values
        return sums


def add_marks(figure, marks):
    named = len(marks) <= MARKS_NAMED_MAX
    for time_s, text in zip(marks["time_s"], marks["text"]):
        figure.add_shape(type="line", x0=time_s, x1=time_s, y0=0, y1=1, yref="paper",
                         line={"width": 1, "dash": "dot"})
        if named:
            figure.add_annotation(x=time_s, y=1, yref="paper", yanchor="top", xanchor="left",
                                  text=plain(text), showarrow=False, font={"size": 10})


def overlaid_slowdowns(lines_by_policy):
    """Slowdown over time of several policies, the fastest first."""
    figure = graph.Figure()
    for index, (policy, lines) in enumerate(list(lines_by_policy.items())[:OVERLAY_MAX]):
        figure.add_scatter(x=packed(lines.seconds), y=packed(lines.slowdown), mode="lines", name=plain(policy),
                           connectgaps=True,
                           line={"width": 1.5, "color": COLOURS[index % len(COLOURS)]})
    add_marks(figure, next(iter(lines_by_policy.values())).marks)
    figure.update_xaxes(title={"text": "seconds of the trace"}, rangemode="tozero")
    figure.update_yaxes(title={"text": "slowdown"})
    return finished(figure, 360, hovermode="x unified", showlegend=True)


def time_line(lines):
    """Placement, moves and slowdown of one cell, under each other."""
    figure = make_subplots(rows=3, cols=1, shared_xaxes=True, vertical_spacing=0.05,
                           row_heights=[0.5, 0.2, 0.3])
    for index, (place, values) in enumerate(lines.resident.items()):
        colour = place_colour(place, index)
        figure.add_scatter(x=packed(lines.seconds), y=packed(values), name=place, row=1, col=1,
                           stackgroup="places", mode="lines", line={"width": 0.5, "color": colour},
                           hovertemplate="%{y:.2f} GiB")
    plain = {"mode": "lines", "showlegend": False, "col": 1}
    figure.add_scatter(x=packed(lines.seconds), y=packed(lines.moved_rate), name="moved", row=2,
                       line={"width": 1, "color": COLOURS[5]}, fill="tozeroy", **plain)
    figure.add_scatter(x=packed(lines.seconds), y=packed(lines.slowdown), name="slowdown", row=3, connectgaps=True,
                       line={"width": 1.5, "color": COLOURS[0]}, **plain)
    add_marks(figure, lines.marks)
    for row, title in enumerate(("GiB at each place", "moved, GiB/s", "slowdown"), start=1):
        figure.update_yaxes(title={"text": title}, row=row, col=1, rangemode="tozero" if row < 3 else "normal")
    figure.update_xaxes(rangemode="tozero")
    figure.update_xaxes(title={"text": "seconds of the trace"}, row=3, col=1)
    return finished(figure, 640, hovermode="x unified", showlegend=True)


def place_colour(place, index):
    number = place.partition("(")[2].rstrip(")")
    number = int(number) if number.isdigit() else index
    return (HOSTS if "host" in place else COLOURS)[number % (4 if "host" in place else 8)]


def place_order(place):
    kind, _, number = place.partition("(")
    number = number.rstrip(")")
    return kind, int(number) if number.isdigit() else 0, place


def heat_map(lines):
    """GiB moved, from the place of the row to that of the column."""
    routes = lines.routes
    places = sorted({*routes["source"], *routes["target"]}, key=place_order)
    amounts = numpy.full((len(places), len(places)), numpy.nan)
    for source, target, moved in zip(routes["source"], routes["target"], routes["bytes"]):
        if moved > 0:
            amounts[places.index(source), places.index(target)] = moved / GIB
    largest = numpy.nanmax(amounts, initial=0.0) or 1.0
    figure = graph.Figure(graph.Heatmap(
        z=amounts.astype("float32"), x=places, y=places, colorscale=HEAT, zmin=0, zmax=float(largest), xgap=2, ygap=2,
        texttemplate="%{z:.3g}", hoverongaps=False, colorbar={"title": {"text": "GiB"}, "thickness": 12},
        hovertemplate="%{y} to %{x}: %{z:.4g} GiB<extra></extra>"))
    figure.update_xaxes(title={"text": "to"}, type="category", showgrid=False)
    figure.update_yaxes(title={"text": "from"}, type="category", autorange="reversed", showgrid=False,
                        automargin=True)
    side = 60 if len(places) <= 10 else 30
    return finished(figure, 110 + side * max(3, len(places)), width=260 + 1.4 * side * max(4, len(places)))


def link_bars(lines):
    """How much of what each link could have carried it did carry."""
    names = sorted(lines.links, key=place_order)
    figure = graph.Figure(graph.Bar(
        y=names, x=[100 * lines.links[name] for name in names], orientation="h",
        marker={"color": COLOURS[0]}, hovertemplate="%{y}: %{x:.3g} %<extra></extra>"))
    figure.update_yaxes(autorange="reversed", automargin=True, showgrid=False)
    figure.update_xaxes(title={"text": "% of what the link could have carried"}, rangemode="tozero")
    return finished(figure, 110 + 20 * len(names))
