"""How pictures of measurements look and are written: the same samples give the same bytes. matplotlib is imported when
something is drawn."""

import json
import pathlib

from harness.programs import parser_of, skip

# Okabe and Ito's, which colour-blind readers tell apart.
BLUE, SKY, GREEN, ORANGE, RED, PURPLE = "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7"
GREY = "#666666"
STYLE = {
    "svg.hashsalt": "vmart", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6, "axes.axisbelow": True, "legend.frameon": False,
}


def has_matplotlib():
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def write(path, draw, data):
    """What `draw(pyplot, data)` returns, as SVG. Returns the path."""
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        figure = draw(pyplot, data)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    return path


def title(axes, text, size=10, **more):
    axes.set_title(text, loc="left", fontsize=size, **more)


def slanted_ticks(axes, labels):
    axes.set_xticks(range(len(labels)), labels, fontsize=8, rotation=40, ha="right", rotation_mode="anchor")


def area(axes, x, low, high, colour, **more):
    axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0, **more)


def span(axes, begin, end, colour, alpha):
    return axes.axvspan(begin, end, color=colour, alpha=alpha, linewidth=0)


def main(about, draw_all, **numbers):
    """Of a script that draws a file of samples into a folder: `draw_all(document, folder, **numbers)` returns the paths
    that it has written. `numbers`: the default and the help of each further flag."""
    parser = parser_of(about)
    parser.add_argument("samples", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("docs/images"))
    for name, (default, text) in numbers.items():
        parser.add_argument(f"--{name}", type=float, default=default, help=text)
    flags = parser.parse_args()
    if not has_matplotlib():
        return skip("matplotlib is not installed")
    document = json.loads(flags.samples.read_text(encoding="utf-8"))
    for path in draw_all(document, flags.out, **{name: getattr(flags, name) for name in numbers}):
        print(path)
    return 0
