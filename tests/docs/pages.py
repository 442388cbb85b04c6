#!/usr/bin/env python3
"""pages.py SUITE START --source DIR --cache DIR --work DIR [--toolkit DIR] [--only PAGE]: does what pages of the
documentation tell their reader to type, as written, on a new machine (fresh_root.py) that has no GPU. START is
README.md, or the page of docs/ by which a reader installs vmart; every page that says it comes after START follows.
Without START, only the root file system is made.

    <!-- after: PAGE -->      at the top: the commands need what PAGE installs
    <!-- file: NAME -->       the next block is written to NAME
    <!-- not run: REASON -->  the next block is only read (Python is still compiled)
    <!-- fails -->            the commands of the next block end with an error

The commands of a page (sh) are typed into one terminal, in the folder of the source tree. A block marked `text`
behind commands shows what they print: its lines occur in their output in that order, whatever the numbers are; "..."
stands for lines that are left out.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import time

import fresh_root

BLOCK = re.compile(r"(?:^<!-- ([^\n]*?) -->\n\n?)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{16}\b|(?<![(\w])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
AFTER = re.compile(r"^<!-- after: (\S+) -->$", re.MULTILINE)
LIMIT_S = 1800


class Wrong(Exception):
    pass


def masked(line):
    """Numbers differ from run to run, and columns with them; ordinals of places do not."""
    return " ".join(NUMBER.sub("#", line).split())


def require_shown(shown, printed):
    lines = iter([masked(line) for line in printed.splitlines()])
    for line in shown.splitlines():
        if line.strip() in ("", "..."):
            continue
        if masked(line) not in lines:
            raise Wrong(f"the page shows\n    {line}\nwhich is not, or not there, in\n{printed}")


def blocks(text):
    """(mark, language, block) of each block that is for the reader: `text` only behind commands that run."""
    behind_commands = False
    for mark, language, block in BLOCK.findall(text):
        if language == "text" and not behind_commands:
            continue
        if mark.startswith("not run:"):
            if language == "python":
                compile(block, "the page", "exec")
            behind_commands = False
            continue
        behind_commands = language == "sh" or (language == "text" and behind_commands)
        if mark.startswith("file: ") or language in ("sh", "text"):
            yield mark, language, block


def has_commands(text):
    return any(language == "sh" for _, language, _ in blocks(text))


def follow(text, root):
    """Returns how many blocks of commands were run."""
    root.open_terminal()
    ran, printed = 0, ""
    for mark, language, block in blocks(text):
        if language == "text":
            require_shown(block, printed)
        elif mark.startswith("file: "):
            (root.tree / mark.removeprefix("file: ")).write_text(block, encoding="utf-8")
        else:
            begin = time.monotonic()
            status, printed = root.run(block, LIMIT_S)
            print(f"$ {block}{printed}[{time.monotonic() - begin:.1f} s]", flush=True)
            if (status != 0) != (mark == "fails"):
                raise Wrong(f"exit status {status} of\n{block}")
            ran += 1
    return ran


def pages_to_try(docs):
    """Each page of tutorials and guides that has commands, with the page that it comes after, or None."""
    found = {}
    for page in [*sorted(docs.glob("tutorial/*.md")), *sorted(docs.glob("guide/*.md"))]:
        text = page.read_text(encoding="utf-8")
        if has_commands(text):
            found[page] = next(iter(AFTER.findall(text)), None)
    return found


def pages_from(start, docs):
    """START and the pages that come after it."""
    first = docs.parent / start if start == "README.md" else docs / start
    return [first, *(page for page, after in pages_to_try(docs).items() if after == start)]


def follow_pages(arguments, base, folder):
    pages = pages_from(arguments.start, arguments.source / "docs")
    if arguments.only:
        pages = [page for page in pages if page == pages[0] or page.stem in arguments.only]
    root = fresh_root.FreshRoot(base, folder, arguments.source, arguments.toolkit)
    for page in pages:
        begin = time.monotonic()
        print(f"=== {page}", flush=True)
        try:
            ran = follow(page.read_text(encoding="utf-8"), root)
        except (Wrong, subprocess.TimeoutExpired) as wrong:
            sys.exit(f"{page.name}: {wrong}")
        if ran == 0:
            sys.exit(f"{page.name}: nothing to run")
        print(f"=== {page}: {ran} blocks in {time.monotonic() - begin:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", help="of Debian: bookworm, trixie")
    parser.add_argument("start", nargs="?")
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--toolkit", type=pathlib.Path, help="the headers of CUDA, as /usr/local/cuda/include")
    parser.add_argument("--only", action="append", help="name of a page that comes after START")
    arguments = parser.parse_args()
    base, folder = fresh_root.start(arguments)
    if arguments.start:
        follow_pages(arguments, base, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
