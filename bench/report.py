#!/usr/bin/env python3
"""Writes the tables of docs/results/ from the samples in docs/measurements/*.json.

A table stands between `<!-- bench:begin NAME:TABLE -->` and `<!-- bench:end -->`, where NAME is that
of a file without its ending, and TABLE is one of `call_figures.py`, `live_figures.py` or
`placement_figures.py`.
With `--check` nothing is written, and the exit status says whether anything would change.
"""

import json
import pathlib
import re
import sys

from calls import call_figures
from harness.programs import parser_of
from harness.samples import Measurements, table
from live import live_figures
from placement import placement_figures

TABLES = {**call_figures.TABLES, **live_figures.TABLES, **placement_figures.TABLES}
ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "results"
SAMPLES = ROOT / "docs" / "measurements"
MARKED = re.compile(r"(<!-- bench:begin ([\w.-]+):(\w+) -->\n).*?(<!-- bench:end -->)",
                    re.DOTALL)


def describe(context):
    """Command, machine and commit, in one sentence each."""
    machine = f"{len(context['gpus'])} x {context['gpus'][0]}" if context["gpus"] else context["driver"]
    version = f", driver {context['driver_version']}" if context["driver_version"] else ""
    changed = " with local changes" if context["changed"] else ""
    return (f"`{context['command']}` on {machine}{version}; {context['cpu']}, {context['cores']} "
            f"cores; {context['date']}; commit `{context['commit'] or 'unknown'}`{changed}; "
            f"seed {context['seed']}.")


def tables(name, which):
    measured = Measurements(json.loads((SAMPLES / f"{name}.json").read_text()))
    headers, rows_of = TABLES[which]
    return describe(measured.context) + "\n\n" + table(headers, rows_of(measured))


def rewrite(text):
    return MARKED.sub(lambda found: f"{found[1]}\n{tables(found[2], found[3])}\n\n{found[4]}", text)


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    changed = False
    for page in sorted(PAGES.rglob("*.md")):
        text = page.read_text()
        written = rewrite(text)
        if written == text:
            continue
        changed = True
        if not arguments.check:
            page.write_text(written)
    return 1 if arguments.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
