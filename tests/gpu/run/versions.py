"""The versions of what run_programs.py plays, as far as they are known."""

import importlib.metadata
import pathlib
import re
import subprocess

# The first of those that is installed.
DISTRIBUTIONS = {
    "torch": ("torch",), "triton": ("triton",), "cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy"),
    "jax": ("jax",), "numba": ("numba",), "transformers": ("transformers",),
    "nccl": ("nvidia-nccl-cu13", "nvidia-nccl-cu12"),
}


def versions():
    found = {name: next(filter(None, map(installed, names)), "") for name, names in DISTRIBUTIONS.items()}
    found["nvcc"] = first(r"release ([\d.]+)", output_of("nvcc", "--version"))
    try:
        driver = pathlib.Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        driver = ""
    found["driver"] = first(r"Module .*?(\d+\.[\d.]+)", driver)
    return {name: version for name, version in found.items() if version}


def installed(distribution):
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def first(pattern, text):
    found = re.search(pattern, text)
    return found.group(1) if found else ""
