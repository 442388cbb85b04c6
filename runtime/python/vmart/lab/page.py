"""The page as one file of HTML: it fetches nothing and links to nothing outside itself."""

import importlib.resources
import json

from vmart.lab.tables import escaped

# Identifier, title. All are there whatever the results have. The middle ones are of one cell, which
# is chosen above them.
BEFORE = (("asked", "What was asked"), ("policies", "Policies"), ("compared", "Compared"))
CHOSEN = (("time", "Over time"), ("moves", "Moves"), ("links", "Links"))
AFTER = (("failed", "What failed"), ("reading", "How to read this"))
SECTIONS = (*BEFORE, *CHOSEN, *AFTER)


def text_of(name):
    return importlib.resources.files("vmart.lab").joinpath(name).read_text(encoding="utf-8")


def as_script(value):
    """JSON that may stand in a script element: nothing in it ends that."""
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def figures_script(figures):
    members = ",".join(f"{json.dumps(name)}:{figure.to_json()}" for name, figure in figures.items())
    return as_script("{" + members + "}")


def all_of(names, sections):
    return "".join(f'<section id="{identity}"><h2>{escaped(name)}</h2>\n{sections[identity]}\n</section>\n'
                   for identity, name in names)


def choice(scenarios):
    if not scenarios:
        return ""
    options = "".join(f"<option>{escaped(each['title'])}</option>" for each in scenarios)
    return (f'<div class="choice"><label>trace and machine <select id="scenario">{options}</select></label> '
            '<label>policy <select id="policy"></select></label></div>')


def page(title, about, status, sections, figures, scenarios, plotly_js):
    """`sections` has the inner HTML by identifier, `status` is HTML; `figures` Plotly's by name."""
    contents = "".join(f'<a href="#{identity}">{escaped(name)}</a>' for identity, name in SECTIONS)
    body = (all_of(BEFORE, sections) + f'<div class="chosen">{choice(scenarios)}\n'
            + all_of(CHOSEN, sections) + "</div>\n" + all_of(AFTER, sections))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:">
<title>{escaped(title)}: placement lab</title>
<style>
{text_of("page.css")}</style>
</head>
<body>
<header>
<h1>{escaped(title)}</h1>
<p class="about">{escaped(about)}</p>
{status}
<nav>{contents}</nav>
</header>
<main>
{body}</main>
<noscript><p>The pictures need JavaScript; the tables do not.</p></noscript>
<script type="application/json" id="scenarios">{as_script(scenarios)}</script>
<script type="application/json" id="figures">{figures_script(figures)}</script>
<script>{plotly_js}</script>
<script>
{text_of("page.js")}</script>
</body>
</html>
"""
