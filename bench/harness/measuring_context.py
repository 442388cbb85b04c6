"""Where and of what something was measured: what every file of samples says of itself."""

import datetime
import os
import pathlib
import platform
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/gpu/run"))
# After the path is known.
import versions  # noqa: E402


def ask(*command):
    """The output of a command, empty if it cannot be run."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=ROOT)
        return answer.stdout.strip() if answer.returncode == 0 else ""
    except (OSError, subprocess.TimeoutExpired):
        return ""


def query_gpus(fields):
    text = ask("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits")
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]


def commit():
    return ask("git", "rev-parse", "--short=12", "HEAD")


def is_changed():
    return bool(ask("git", "status", "--porcelain", "--untracked-files=no"))


def make_context(program, driver, gpus, seed):
    """`gpus` has the name and the driver's version of each that is used."""
    cpu = re.search(r"model name\s*:\s*(.*)", ask("cat", "/proc/cpuinfo"))
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": os.environ.get("VMART_COMMIT") or commit(),
        "changed": is_changed(),
        "command": " ".join([program, *sys.argv[1:]]),
        "driver": driver,
        "driver_version": gpus[0][1] if gpus else "",
        "cuda_version": versions.cuda_version() if gpus else "",
        "versions": versions.versions() if gpus else {},
        "gpus": [gpu[0] for gpu in gpus],
        "cpu": cpu.group(1) if cpu else platform.processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "seed": seed,
    }
