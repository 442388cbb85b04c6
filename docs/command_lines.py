#!/usr/bin/env python3
"""command_lines.py VMART VMART-LAB: writes docs/reference/command_lines.md from what the two programs
print with --help. With --check nothing is written, and the exit status says whether it would change.
"""

import argparse
import difflib
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent / "reference" / "command_lines.md"
COMMAND = re.compile(r"^  ([a-z][a-z-]*) {2,}", re.MULTILINE)
HEAD = """# Command lines

What `vmart --help`, `vmart-lab --help` and the help of their commands print. `docs/command_lines.py` writes this page.
[Control](../guide/control.md#the-command-line) explains the commands of `vmart`; the guides on [replays](../guide/replay.md),
[bounds](../guide/bounds.md), [experiments](../guide/experiments.md) and [traces](traces.md) those of `vmart-lab`.

`python3 -m vmart.lab` has the commands `run` and `reproduce`, which `vmart-lab` starts, `report`, `sweep` and `optimum`:
[reading results](../guide/reading_results.md), [bounds](../guide/bounds.md#as-a-program). `vmart-lab convert` starts its commands `events`,
`files` and `formats`: [traces](traces.md#converters).
"""


def help_of(program, commands):
    done = subprocess.run([program, *commands, "--help"], capture_output=True, text=True, check=True)
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


def sections(program, commands, depth):
    """One for the program or command, then one for each command below it."""
    text = help_of(program, commands)
    name = " ".join([pathlib.Path(program).name, *commands])
    yield f"\n{'#' * depth} {name}\n\n```\n{text}\n```\n"
    # Commands stand below the options, under several headings.
    _, _, below = text.partition("\nOptions:\n")
    for command in COMMAND.findall(below) if f"Usage: {name} [OPTIONS] COMMAND" in text else ():
        yield from sections(program, [*commands, command], 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs=2)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    written = HEAD + "".join(part for program in arguments.programs for part in sections(program, [], 2))
    if not arguments.check:
        PAGE.write_text(written, encoding="utf-8")
        return 0
    there = PAGE.read_text(encoding="utf-8")
    if there == written:
        return 0
    sys.stdout.writelines(difflib.unified_diff(there.splitlines(True), written.splitlines(True),
                                               "the page", "--help", n=1))
    print("docs/command_lines.py VMART VMART-LAB writes the page anew")
    return 1


if __name__ == "__main__":
    sys.exit(main())
