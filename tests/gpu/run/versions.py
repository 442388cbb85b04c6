"""What run_programs.py measures with, as far as it is known: versions, GPUs, and the commit of vmart."""

import collections
import ctypes
import importlib.metadata
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
NAME_BYTES = 256
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


def cuda_version():
    """The version of CUDA that the driver is for; empty without one."""
    try:
        driver, version = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    except OSError:
        return ""
    if driver.cuDriverGetVersion(ctypes.byref(version)) != 0 or version.value == 0:
        return ""
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


def commit():
    """Of the checkout that this file is in; empty if that has no git folder."""
    if not (ROOT / ".git").exists():
        return ""
    found = output_of("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD").strip()
    changed = output_of("git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no").strip()
    return f"{found}+changes" if found and changed else found


def gpu_names():
    """As the driver lists them. Makes no context."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    names = []
    for ordinal in range(count.value):
        device, name = ctypes.c_int(), ctypes.create_string_buffer(NAME_BYTES)
        driver.cuDeviceGet(ctypes.byref(device), ordinal)
        driver.cuDeviceGetName(name, NAME_BYTES, device)
        names.append(name.value.decode(errors="replace"))
    return names


def gpus():
    """Such as `2 x NVIDIA H200`."""
    return ", ".join(f"{count} x {name}" for name, count in collections.Counter(gpu_names()).items())


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
