#!/usr/bin/env python3
"""Compiles sources of the runtime alone, without writing anything: one that forgot to include a header is found
here, although it compiles in a batch of others. All of them take minutes, so a run takes the third that VMART_SEED
chooses, and with VMART_LONG=1 all.

    alone.py SOURCE_FOLDER [CMAKE_OPTION...]
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

SHOWN = 30
SHARES = 1 if os.environ.get("VMART_LONG") == "1" else 3
SEED = int(os.environ.get("VMART_SEED", "0"))


def commands(root, folder, options):
    """How each source of this run's share of runtime/ is compiled if it is not in a batch."""
    subprocess.run(["cmake", "-S", root, "-B", folder, "-DVMART_BATCHES=OFF", "-DVMART_BUILD_TESTS=OFF",
                    "-DVMART_BUILD_BENCH=OFF", "-DVMART_BUILD_EXAMPLES=OFF", "-DVMART_BUILD_PYTHON=OFF",
                    "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *options], check=True, stdout=subprocess.DEVNULL)
    entries = json.loads((pathlib.Path(folder) / "compile_commands.json").read_text(encoding="utf-8"))
    runtime = str(pathlib.Path(root).resolve() / "runtime") + os.sep
    ours = sorted((entry for entry in entries if entry["file"].startswith(runtime)), key=lambda entry: entry["file"])
    return {entry["file"]: entry for entry in ours[SEED % SHARES::SHARES]}


def errors_of(entry):
    words = shlex.split(entry["command"])
    if "-o" in words:
        place = words.index("-o")
        del words[place:place + 2]
    done = subprocess.run([*words, "-fsyntax-only", "-O0"], cwd=entry["directory"], capture_output=True, text=True,
                          check=False)
    return done.stderr if done.returncode else ""


def main(root, *options):
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = commands(root, folder, options)
        failed = [(file, text) for file, text in zip(found, pool.map(errors_of, found.values())) if text]
    for file, text in failed[:SHOWN]:
        print(f"{file} does not compile alone:\n{text}")
    print(f"{len(found)} sources, {len(failed)} do not compile alone")
    return 1 if failed or not found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
