"""The command lines `vmart` and `vmart-lab`, which lie beside this file."""

import os
import sys
from pathlib import Path
from typing import NoReturn


def _run(name: str) -> NoReturn:
    program = Path(__file__).parent / "bin" / name
    if not program.exists():
        sys.exit(
            f"{name} was not built: install CLI11 (libcli11-dev) and zlib (zlib1g-dev), then vmart again"
        )
    # `vmart-lab run` and `convert` start `python3`, and mean this one.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    os.execve(program, [name, *sys.argv[1:]], {**os.environ, "PATH": path})


def vmart() -> NoReturn:
    _run("vmart")


def vmart_lab() -> NoReturn:
    _run("vmart-lab")
