#!/usr/bin/env python3
"""torch_memory_saver's own tests (test/test_examples.py and test/test_utils.py of version 0.0.10) by torch_memory_saver
itself and by vmart.torch.memory_saver.

    memory_saver.py CLONE [--real FOLDER] [--logs DIR]

CLONE is a clone of torch_memory_saver, or its folder test. FOLDER holds the installed torch_memory_saver; without it, the one
that Python finds. With vmart, `import torch_memory_saver` finds the folder shim: its names, by vmart. Both modes have a process
for each test. With two GPUs, tests of one GPU run in both modes at once, on a GPU each: they compare the used memory of the GPU.

Needs PyTorch, torch_memory_saver, pytest with xdist and timeout, nvidia-ml-py, and a GPU, better two that nobody else uses.
About 7 minutes. Leaves with 77 if something is missing.
"""

import importlib.util
import os
import pathlib
import sys

import compare

MMAP = (
    "asserts how backups are made: the resident memory of the process, or addresses of cudaMallocHost. vmart's lie in memory of "
    "the driver at the host"
)
EXPLAINED = {
    "*test_cpu_backup[*": "reads backups in place (zero_copy), also after the resume, and pools of the implementation: "
    "`get_cpu_backup` of vmart copies, and returns None after the resume",
    "*test_cpu_backup_rss": MMAP,
    "*test_cpu_backup_preload_backend_from_env": MMAP,
    "*test_disk_backup*": "vmart keeps backups in host memory",
    "*test_cuda_vmm_granularity": "memory of cudaMalloc, paused by functions of the preloaded library; vmart's regions hold the "
    "tensors of PyTorch",
    "*test_training_engine": "its last part needs PyTorch to return cached memory when it runs out. PyTorch does not do that "
    "for memory pools in use, and vmart preloads nothing",
    "*test_get_binary_path_from_package*": "how torch_memory_saver finds its binaries",
    "*test_cpu_backup_backend_rejected_on_xpu": "other hardware than CUDA's",
    "*test_cpu_backup_backend_rejects_mmap_on_rocm": "other hardware than CUDA's",
    "*test_change_env*": "a function of the tests, which the shim has too",
}


def library_path():
    """With the CUDA runtime that PyTorch brings, which torch_memory_saver's preloaded library needs from the start."""
    site = pathlib.Path(importlib.util.find_spec("torch").origin).parents[1]
    found = {str(library.parent) for library in site.glob("nvidia/*/lib/libcudart.so.*")}
    return os.pathsep.join([*sorted(found), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])


def main():
    given = compare.arguments(__doc__, real="the folder of the installed torch_memory_saver")
    tests = given.clone / "test" if (given.clone / "test").is_dir() else given.clone
    modules = ("torch", "vmart", "pytest", "xdist", "pytest_timeout", "pynvml", "numpy")
    gpus = compare.require(modules, [tests / "test_examples.py", tests / "examples" / "simple.py"], 1)
    if given.real is None and given.only != "vmart" and importlib.util.find_spec("torch_memory_saver") is None:
        compare.skip("Python has no torch_memory_saver; name its folder by --real")
    files = ["test_examples.py", "test_utils.py"]
    suite = compare.Suite(
        name="torch_memory_saver",
        folder=tests,
        parts=[
            compare.Part([*files, "-k", "not multi_device"], given.workers or 1, gpus=1, timeout_s=420),
            compare.Part([*files, "-k", "multi_device"], given.workers or 1, timeout_s=120),
        ],
        plugins={},
        test_timeout_s=60,
        environment={"bare": {"LD_LIBRARY_PATH": library_path()}},
        python_path={"bare": [str(pathlib.Path(given.real).resolve())] if given.real else [], "vmart": [str(compare.HERE / "shim")]},
        explained=EXPLAINED,
        share_needed=0.9,
        passed_needed=13,
    )
    return compare.run(suite, given, gpus)


if __name__ == "__main__":
    sys.exit(main())
