#!/usr/bin/env python3
"""tutorial.py PAGE --source DIR --build DIR --tools DIR --library DIR [--compiler CXX]
[--python PYTHON --package DIR]: does what a page of docs/tutorial/ tells its reader to do, in a temporary folder, on a simulated machine.

    <!-- file: NAME -->       the next block is written to NAME
    <!-- not run: REASON -->  the next block is only read (Python is still compiled)
    <!-- fails -->            the commands of the next block end with an error
    <!-- needs: MODULE -->    at the top: leaves with 77 if Python cannot import the module

Blocks of commands (sh) are run in order; commands stop at the first one that fails. Every other block
of cpp or python has to be a file or "not run". A block marked `text` behind commands shows what they
print: its lines occur in their output in that order, whatever the numbers are; "..." stands for lines
that are left out.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"(?:^<!-- ([^\n]*?) -->\n\n?)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{16}\b|(?<![(\w])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
NEEDS = re.compile(r"^<!-- needs: (\w+) -->$", re.MULTILINE)
LIMIT_S = 240
EXIT_SKIPPED = 77


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


class Reader:
    """Follows a page in a folder of its own, where the source tree's folders are at hand."""

    def __init__(self, arguments, folder):
        self.folder = folder
        for name in ("bench", "examples", "docs", "runtime"):
            (folder / name).symlink_to(arguments.source / name)
        (folder / "build").mkdir()
        (folder / "build" / "release").symlink_to(arguments.build)
        programs = folder / ".programs"
        programs.mkdir()
        # In place of an installed vmart.pc, which tests/install tries.
        self._program(programs / "pkg-config", f'echo "-I{arguments.source}/include -L{arguments.library} '
                      f'-Wl,-rpath,{arguments.library} -lvmart"')
        self._program(programs / "g++", f'exec {arguments.compiler} "$@"')
        # In place of an installed package, which tests/python/package tries.
        self._program(programs / "python3", f'exec {arguments.python} "$@"')
        folders = [str(programs), *arguments.tools, os.environ["PATH"]]
        self.environment = {**os.environ, "PATH": os.pathsep.join(folders),
                            "VMART_DRIVER": "sim:h200x2", "PYTHONPATH": arguments.package}

    @staticmethod
    def _program(path, text):
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def run(self, commands, fails):
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=self.folder,
                              env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=LIMIT_S, check=False)
        print(f"$ {commands}{done.stdout}", flush=True)
        if (done.returncode != 0) != fails:
            raise Wrong(f"exit status {done.returncode}")
        return done.stdout

    def follow(self, text):
        """Returns how many blocks were run or written."""
        done, printed = 0, None
        for mark, language, block in BLOCK.findall(text):
            if language == "text":
                if printed is not None:
                    require_shown(block, printed)
                continue
            printed = None
            if mark.startswith("not run:"):
                if language == "python":
                    compile(block, "the page", "exec")
                continue
            if mark.startswith("file: "):
                (self.folder / mark.removeprefix("file: ")).write_text(block, encoding="utf-8")
            elif language == "sh":
                printed = self.run(block, fails=mark == "fails")
            else:
                raise Wrong(f"a block of {language} that is neither a file nor marked as not run:\n{block}")
            done += 1
        return done


def missing(text, python):
    """The modules that the page needs and `python` does not have."""
    return [module for module in NEEDS.findall(text)
            if subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode != 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--tools", action="append", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--package", default="")
    arguments = parser.parse_args()
    text = arguments.page.read_text(encoding="utf-8")
    if without := missing(text, arguments.python):
        print(f"SKIPPED: needs {', '.join(without)}")
        return EXIT_SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = Reader(arguments, pathlib.Path(folder)).follow(text)
        except Wrong as wrong:
            sys.exit(f"{arguments.page.name}: {wrong}")
    if done == 0:
        sys.exit(f"{arguments.page.name}: nothing to run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
