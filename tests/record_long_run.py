#!/usr/bin/env python3
"""record_long_run.py SECONDS: adds a row to the table of long runs in docs/results/test_runs.md.

Counts come from the tests themselves: a line `VMART_COUNT name=number` in a test's output is added
up over all test logs.
"""

import datetime
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "results" / "test_runs.md"
HEADING = "## Long runs"
TABLE = [
    "",
    "Each line is one `./tests/run.sh --long` that passed.",
    "",
    "| date | commit | seed | counts | minutes |",
    "|---|---|---|---|---|",
]


def counts():
    total = Counter()
    for log in ROOT.glob("build/*/Testing/Temporary/LastTest.log"):
        if log.parts[-4] not in ("release", "asan", "tsan"):
            continue
        text = log.read_text(encoding="utf-8", errors="replace")
        for name, number in re.findall(r"VMART_COUNT (\S+)=(\d+)", text):
            total[name] += int(number)
        total["ctest"] += len(re.findall(r"^Test Passed\.$", text, re.MULTILINE))
    return ", ".join(f"{name} {number}" for name, number in sorted(total.items()))


def commit():
    def git(*arguments):
        return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True,
                              check=False).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    return (git("rev-parse", "--short=12", "HEAD") or "none") + ("+changes" if changed else "")


def with_row(text, row):
    """The row goes to the end of the table under the heading; both are made where they lack."""
    lines = text.rstrip("\n").split("\n")
    if HEADING not in lines:
        return "\n".join([*lines, "", HEADING, *TABLE, row, ""])
    at = lines.index(HEADING) + 1
    end = next((i for i in range(at, len(lines)) if lines[i].startswith("## ")), len(lines))
    rows = [i for i in range(at, end) if lines[i].startswith("|")]
    if not rows:
        return "\n".join([*lines[:at], *TABLE, row, *lines[at:], ""])
    return "\n".join([*lines[:rows[-1] + 1], row, *lines[rows[-1] + 1:], ""])


def main():
    minutes = round(int(sys.argv[1]) / 60)
    row = (f"| {datetime.date.today()} | {commit()} | {os.environ.get('VMART_SEED', '')} "
           f"| {counts()} | {minutes} |")
    text = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.exists() else "# How long do builds and tests take?\n"
    DOCUMENT.write_text(with_row(text, row), encoding="utf-8")
    print(f"added to {DOCUMENT.relative_to(ROOT)}: {row}", file=sys.stderr)


if __name__ == "__main__":
    main()
