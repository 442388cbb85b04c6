#!/usr/bin/env python3
"""sources_test.py SUITE --source DIR --cache DIR --work DIR [--toolkit DIR]: types what docs/guide/install.md says for the sources on
SUITE, the release of a distribution whose Boost is too old (jammy: Ubuntu 22.04), on a new machine (tests/docs/fresh_root.py) with its
own compiler, CMake and fmt, and the headers of CUDA if the toolkit's are given. Then a program is compiled with what was installed.
"""

import argparse
import pathlib
import re
import subprocess
import sys

from packages_test import BLOCK, require_move, require_move_of_program, type_timed
from wheel_test import Machine, Wrong, fresh_root

BUILD_LIMIT_S = 5400
FETCHED = " -DVMART_FETCH_BOOST=ON"
SIMULATED_ONLY = " -DVMART_SIM_ONLY=ON"


def follow(page, machine, has_cuda):
    """The page's commands, one by one. Without what replaces the system's Boost, the build is refused first."""
    machine.type("sudo apt-get update -qq")
    for command in dict(BLOCK.findall(page))["sources"].splitlines():
        if FETCHED in command:
            refused = machine.type(f"if {command.replace(FETCHED, SIMULATED_ONLY)} -B refused 2>&1; then exit 1; fi")
            if not re.search(r"vmart needs Boost 1\.81 or newer[^$]*-DVMART_FETCH_BOOST=ON", refused):
                raise Wrong(f"the option is not named in\n{refused}")
            if has_cuda:
                command = command.replace(SIMULATED_ONLY, "")
        printed = type_timed(machine, command, command, BUILD_LIMIT_S)
        if "warning:" in printed:
            raise Wrong(f"the compiler warns in\n{printed}")
    require_move(printed)


def use(arguments, base, folder):
    docs = arguments.source / "docs/guide"
    root = fresh_root.FreshRoot(base, folder, arguments.source, arguments.toolkit)
    machine = Machine(root)
    root.open_terminal()
    machine.type("test -z \"$(command -v c++ cmake)\"")
    follow((docs / "install.md").read_text(encoding="utf-8"), machine, arguments.toolkit is not None)
    machine.type("g++ --version; cmake --version; test ! -e /usr/include/boost")
    program, = re.findall(r"<!-- file: program.cpp -->\n```cpp\n(.*?)^```$", (docs / "compile_and_link.md").read_text(encoding="utf-8"),
                          re.MULTILINE | re.DOTALL)
    (root.tree / "program.cpp").write_text(program, encoding="utf-8")
    require_move_of_program(machine.type("g++ -std=c++20 program.cpp -o program $(pkg-config --cflags --libs vmart) && "
                                         "VMART_DRIVER=sim:h200x2 ./program"))
    machine.use_tools()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite")
    for name in ("source", "cache", "work"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--toolkit", type=pathlib.Path)
    arguments = parser.parse_args()
    base, folder = fresh_root.start(arguments)
    try:
        use(arguments, base, folder)
    except (Wrong, subprocess.TimeoutExpired) as wrong:
        sys.exit(f"{arguments.suite}: {wrong}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
