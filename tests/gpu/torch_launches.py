#!/usr/bin/env python3
"""The kernels that PyTorch launches, as captured graphs have them, are recorded by
`vmart_record_launch`, and the tensors that they work on are found.

torch_launches.py LIBVMART.SO EXAMPLES     leaves with 77 without PyTorch and two GPUs
"""

import ctypes
import json
import os
import pathlib
import socket
import sys
import tempfile
import time

WORDS = 4 << 20  # 16 MiB of floats: a segment of its own.
SIZE = 2048  # WORDS as a matrix.
KERNEL_NODE = 0
LIMIT_S = 20  # For a recorded use to be counted.
LAUNCHES = 20000


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2"""
    _fields_ = [("func", ctypes.c_void_p), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3),
                ("shared_bytes", ctypes.c_uint), ("parameters", ctypes.c_void_p),
                ("extra", ctypes.c_void_p), ("kern", ctypes.c_void_p), ("ctx", ctypes.c_void_p)]


class Control:
    """Asks the runtime of this process how many uses it has counted."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.lines = self.socket.makefile("rw", encoding="utf-8")

    def uses(self):
        self.lines.write('{"command":"stats","format":"json"}\n')
        self.lines.flush()
        return json.loads(self.lines.readline())["ok"]["scheduler"]["uses"]

    def uses_after(self, wanted):
        end = time.monotonic() + LIMIT_S
        while self.uses() < wanted and time.monotonic() < end:
            pass
        return self.uses()


def kernels_of(torch, body):
    """The handle and the parameters of each kernel that `body` launches, and the graph, which owns them."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        result = getattr(cuda, name)(*arguments)
        assert result == 0, f"{name} returned {result}"

    body()  # What is made at the first use is made now.
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        body()
    raw = ctypes.c_void_p(graph.raw_cuda_graph())
    count = ctypes.c_size_t()
    call("cuGraphGetNodes", raw, None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    call("cuGraphGetNodes", raw, nodes, ctypes.byref(count))
    kernels = []
    for node in nodes:
        kind = ctypes.c_int(-1)
        call("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
        if kind.value == KERNEL_NODE:
            kernel = KernelNode()
            call("cuGraphKernelNodeGetParams_v2", ctypes.c_void_p(node), ctypes.byref(kernel))
            kernels.append((kernel.func or kernel.kern, kernel.parameters))
    assert kernels, "nothing was captured"
    return kernels, graph


def record(vmart, kernels):
    for handle, parameters in kernels:
        vmart.call("vmart_record_launch", ctypes.c_void_p(handle), ctypes.c_void_p(parameters), 0)


def check(torch, vmart, control, name, body, tensors):
    """Each of the tensors is used by some kernel of `body`, and by none twice."""
    kernels, graph = kernels_of(torch, body)
    for time_of in ("first", "second"):
        before = control.uses()
        record(vmart, kernels)
        found = control.uses_after(before + tensors) - before
        assert tensors <= found <= tensors * len(kernels), f"{name}, {time_of} time: {found} uses"
    print(f"{name}: {len(kernels)} kernels, {found} uses")
    return kernels, graph


def time_launches(vmart, kernels):
    """Microseconds a launch, those of ctypes included."""
    begin = time.perf_counter()
    for _ in range(LAUNCHES // len(kernels)):
        record(vmart, kernels)
    return (time.perf_counter() - begin) / (LAUNCHES // len(kernels) * len(kernels)) * 1e6


def main(library, examples):
    sys.path.insert(0, examples)
    import torch_pool  # Before torch: it sets what torch reads once.

    torch = torch_pool.torch
    if torch is None or torch.cuda.device_count() < 2:
        print("skipped: this needs PyTorch and two GPUs")
        return torch_pool.EXIT_SKIPPED
    folder = tempfile.TemporaryDirectory()
    os.environ["VMART_CONTROL"] = str(pathlib.Path(folder.name) / "control.sock")
    torch.zeros(1, device="cuda")
    vmart = torch_pool.Vmart(library)
    with torch.cuda.use_mem_pool(vmart.pool):
        x, w, out = (torch.ones(SIZE, SIZE, device="cuda") for _ in range(3))
    torch.cuda.synchronize()
    control = Control(os.environ["VMART_CONTROL"])
    bodies = [("torch.add", lambda: torch.add(x, w, out=out), 3),
              ("torch.relu_", lambda: torch.relu_(x), 1),
              ("torch.mm", lambda: torch.mm(x, w, out=out), 3)]
    # Graphs live on: the parameters of nodes are theirs.
    checked = [check(torch, vmart, control, name, body, uses) for name, body, uses in bodies]
    for (name, _, _), (kernels, _) in zip(bodies, checked):
        print(f"{name}: {time_launches(vmart, kernels):.2f} us a launch, ctypes included")
    del x, w, out, bodies, checked
    vmart.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
