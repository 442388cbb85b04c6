"""Traces of files in other formats, by `vmart-lab convert`, which checks and writes what an importer reads."""

import json
import os
import pathlib
import subprocess
import sys

from vmart.lab.errors import ExperimentError
from vmart.lab.experiments.worker import find_program


def convert(form, source, output, seed, bad_lines_max, program, parameters):
    """The summary that `vmart-lab convert --json` prints. Raises as `vmart.lab.import_`."""
    values = [f"--param={name}={value}" for name, value in parameters.items()]
    # The program starts `python3`, and means this one.
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    try:
        program = program or find_program()
    except ExperimentError as error:
        raise ValueError(str(error)) from None
    done = subprocess.run([program, "convert", "--json", f"--seed={seed}", f"--bad-lines={bad_lines_max}", *values,
                           "--", form, str(source), str(output)], capture_output=True, text=True, errors="replace",
                          check=False, env={**os.environ, "PATH": path})
    if done.returncode != 0:
        raise ValueError(done.stderr.removeprefix("vmart-lab: ").strip())
    return json.loads(done.stdout)
