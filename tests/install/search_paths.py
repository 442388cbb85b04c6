#!/usr/bin/env python3
"""search_paths.py FOLDER: where the loader looks for the libraries of each program and library below FOLDER.

An empty entry, or a relative one, is the working directory, where anybody may have put a library
(CWE-426). Entries have to begin with $ORIGIN and lead to a folder below FOLDER. Prints what does not, and
exits with 1.
"""

import pathlib
import re
import subprocess
import sys

ENTRIES = re.compile(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]")


def is_object(path):
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def searched(path):
    """The entries of one object; none if it has no search path."""
    read = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    return [entry for found in ENTRIES.findall(read) for entry in found.split(":")]


def wrong_entries(folder):
    """How many objects there are, and a line for each entry that is wrong."""
    folder, objects, wrong = pathlib.Path(folder).resolve(), 0, []
    for path in sorted(folder.rglob("*")):
        if not is_object(path):
            continue
        objects += 1
        for entry in searched(path):
            if entry == "$ORIGIN" or entry.startswith("$ORIGIN/"):
                target = pathlib.Path(entry.replace("$ORIGIN", str(path.parent), 1)).resolve()
                if target.is_relative_to(folder):
                    continue
            wrong.append(f"{path.relative_to(folder)} searches [{entry}]")
    return objects, wrong


if __name__ == "__main__":
    count, found = wrong_entries(sys.argv[1])
    print("\n".join(found) or f"{count} objects search their own installation only")
    sys.exit(bool(found) or count == 0)
