"""What the tests of torch_memory_saver use of its modules `utils` and `testing_utils`."""

import contextlib
import os

import torch


def is_xpu():
    return False


@contextlib.contextmanager
def change_env(key, value):
    before = os.environ.get(key)
    os.environ[key] = value
    try:
        yield
    finally:
        del os.environ[key]
        if before is not None:
            os.environ[key] = before


def get_device():
    return "cuda"


def empty_cache():
    torch.cuda.empty_cache()


def get_and_print_gpu_memory(message, gpu_id=0):
    """As nvidia-smi has it, like the original."""
    used = torch.cuda.device_memory_used(gpu_id)
    print(f"GPU {gpu_id}: {used / 2**30:.2f} GiB ({message})")
    return used
