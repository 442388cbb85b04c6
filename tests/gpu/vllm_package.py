#!/usr/bin/env python3
"""vmart.vllm with a real GPU: vLLM's worker around sleep mode (vllm_worker.py), with the vLLM that is
installed, else with a stand-in for its interfaces; CUDA graphs over memory that slept; failures; and what
a sleep leaves in HBM. With a checkout of vLLM as VLLM_SOURCE, also vLLM's own tests of its allocator.

vllm_package.py LIBVMART.SO EXAMPLES      leaves with 77 without the package, PyTorch and a GPU
"""

import contextlib
import importlib
import os
import pathlib
import subprocess
import sys

EXIT_SKIPPED = 77
MIB, GIB = 1 << 20, 1 << 30
PACKAGE_TESTS = pathlib.Path(__file__).resolve().parents[1] / "python/package"
# Of test_cumem.py. The others load models, or look into vLLM's own allocator.
VLLM_TESTS = (
    "test_python_error or test_basic_cumem or test_discard_tags or test_selective_wake or "
    "test_reentered_tag or test_runtime_state or test_cumem_with_cudagraph or test_cudagraph_pool_sleep"
)

os.environ["VMART_VLLM"] = "1"
os.environ.pop("PYTORCH_ALLOC_CONF", None)
sys.path.insert(0, str(PACKAGE_TESTS))


class GpuMemory:
    def __init__(self, torch):
        self.torch = torch

    def make(self, nbytes):
        return self.torch.empty(nbytes, dtype=self.torch.uint8, device="cuda")

    def pointer(self, made):
        return made.data_ptr()

    def fill(self, made, byte):
        made.fill_(byte)

    def byte(self, made):
        (byte,) = made.unique().tolist()
        return byte

    def free_bytes(self):
        self.torch.cuda.synchronize()
        return self.torch.cuda.mem_get_info()[0]


@contextlib.contextmanager
def vllm():
    """The installed one, or the stand-in."""
    try:
        yield importlib.import_module("vllm")
        return
    except ImportError as missing:
        print(f"with a stand-in for vLLM: {missing}")
    import fake_vllm

    with fake_vllm.installed() as made:
        yield made


def residue(vmart):
    held = [place for place in vmart.stats().places if place.at.kind == "gpu"]
    return sum(place.allocated_bytes + place.cached_bytes for place in held)


def cycles(torch, vmart, worker, usage):
    before = worker.pointers()
    for level in (1, 2, 1):
        freed = worker.sleep(level)
        print(f"level {level}: {freed / MIB:.0f} of {usage / MIB:.0f} MiB freed, vmart has {residue(vmart)} bytes")
        assert freed >= 0.95 * usage and residue(vmart) == 0
        worker.wake_up(["weights"])
        if level == 2:
            worker.reload()
        worker.wake_up(["kv_cache"])
        assert worker.pointers() == before and worker.backend.state() == "RUNNING"
        worker.check()
    worker.release_kv_cache()
    worker.wake_up()
    worker.check()


def graphs(torch, allocator, weights):
    """A graph whose operand and whose own memory slept."""
    graph = torch.cuda.CUDAGraph()
    torch.ones(1, device="cuda").add_(1)  # Loads the kernel.
    with allocator.cudagraph_pool() as pool, torch.cuda.graph(graph, pool=pool):
        result = weights + 1
    for _ in range(2):
        allocator.sleep(("weights", "runtime", "cudagraph"))
        allocator.wake_up(["weights"])
        allocator.wake_up(["kv_cache"])
        result.zero_()
        graph.replay()
        assert bool((result == 2).all())


def failures(torch, vmart, worker):
    before, started = worker.pointers(), worker.memory.free_bytes()
    with vmart.pin(worker.weights):
        try:
            worker.sleep()
            raise AssertionError("pinned weights went to sleep")
        except vmart.Error as refused:
            print(f"refused: {refused}")
    assert started - worker.memory.free_bytes() <= 64 * MIB
    worker.check()
    worker.sleep()
    taken = torch.empty(worker.memory.free_bytes() - 48 * MIB, dtype=torch.uint8, device="cuda")
    try:
        worker.wake_up()
        raise AssertionError("there was no room")
    except vmart.OutOfMemory as refused:
        print(f"refused: {refused}")
    assert worker.backend.state() == "SUSPENDED" and residue(vmart) == 0
    del taken
    torch.cuda.empty_cache()
    worker.wake_up()
    assert worker.pointers() == before
    worker.check()


def large(torch, allocator):
    """8 GiB of weights, to the host and back."""
    with allocator.use_memory_pool("weights"):
        tensors = [torch.full((GIB,), index, dtype=torch.uint8, device="cuda") for index in range(8)]
    start, middle, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
    for cycle in range(2):
        start.record()
        slept = allocator.sleep("weights")
        middle.record()
        allocator.wake_up()
        end.record()
        torch.cuda.synchronize()
        times = start.elapsed_time(middle), middle.elapsed_time(end)
        print(f"cycle {cycle}: {slept}, asleep in {times[0]:.0f} ms, awake in {times[1]:.0f} ms")
    assert all(bool((made == index).all()) for index, made in enumerate(tensors))


def tests_of_vllm():
    source = os.environ.get("VLLM_SOURCE")
    if source is None:
        print("vLLM's own tests: set VLLM_SOURCE to a checkout of the installed version")
        return
    script = (
        "import sys, pytest; from vmart.vllm import register; assert register(); "
        "sys.exit(pytest.main(sys.argv[1:]))"
    )
    # Safe path: `import vllm` must find the installed one, and not the checkout.
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, "tests/basic_correctness/memory/cumem/test_cumem.py", "-v", "-k", VLLM_TESTS],
        cwd=source,
    )  # fmt: skip
    assert done.returncode == 0, "vLLM's tests failed"


def main():
    try:
        import torch
        import vmart
        from vllm_worker import ALL, Worker
    except ImportError as missing:
        print(f"SKIPPED: {missing}")
        return EXIT_SKIPPED
    if torch.cuda.device_count() < 1:
        print("SKIPPED: this needs a GPU")
        return EXIT_SKIPPED
    with vllm() as found:
        real = getattr(found, "__file__", None) is not None
        if real:  # Before anything uses the GPU: its tests fork.
            tests_of_vllm()
        assert vmart.vllm.register(), "see the warning above"
        device_allocator = importlib.import_module("vllm.device_allocator")
        backends = importlib.import_module("vllm.device_allocator.sleep_mode_backend")
        worker = Worker(GpuMemory(torch), device_allocator, backends.SleepModeBackendFactory).start()
        worker.fill_buffer()
        allocator = worker.instance()
        usage = allocator.get_current_usage()
        assert ALL <= usage <= 1.1 * ALL, usage
        cycles(torch, vmart, worker, usage)
        failures(torch, vmart, worker)
        graphs(torch, allocator, worker.weights)
        worker.shutdown()
        large(torch, allocator)
    print(f"vLLM {found.__version__} ({'installed' if real else 'a stand-in'}): sleep and wake-up pass")
    return 0


if __name__ == "__main__":
    sys.exit(main())
