"""Programs that nobody here wrote: NVIDIA's cuda-samples and nccl-tests, and the tests of CuPy and PyTorch.

The samples check their own results. Where a sample can work on more than a moment's work, it is told to.
"""

from program_list import NCCL, Program, python_tests


def sample(name, *arguments, **others):
    """They print PASSED or the like, and times. Many of their allocations are small."""
    return Program(f"sample.{name}", (f"{{built}}/samples/{name}", *arguments),
                   **{"compare": "sample", "repeats": True, "smallest": "64KiB",
                      "folder": "{built}/samples", **others})


def nccl_test(name, *arguments, **others):
    """Its table has a column of errors. Times and bandwidths are left out."""
    return Program(f"nccl-tests.{name}", (f"{{built}}/nccl-tests/{name}_perf", *arguments),
                   **{"compare": "nccl", "repeats": True, "gpus": 2, "environment": NCCL,
                      "smallest": "64KiB", "moves": False, **others})  # NCCL allocates its buffers.


# Those whose memory is all managed, mapped by itself, in pools or in graphs: nothing of it moves.
STAY = {"moves": False}

SAMPLES = (
    sample("vectorAdd"),
    sample("vectorAddDrv"),
    sample("vectorAddMMAP", gpus=2, **STAY),
    sample("matrixMul", "-wA=2048", "-hA=2048", "-wB=2048", "-hB=2048"),
    sample("matrixMulDrv"),
    sample("simpleStreams"),
    sample("simpleMultiGPU", gpus=2),
    sample("simpleP2P", gpus=2),
    sample("simpleCallback"),
    sample("simpleMultiCopy"),
    sample("simpleHyperQ"),
    sample("simplePitchLinearTexture"),
    sample("simpleLayeredTexture", **STAY),
    sample("simpleZeroCopy", **STAY),
    sample("asyncAPI", ignored=("^CPU executed",)),
    sample("mergeSort"),
    sample("UnifiedMemoryStreams", **STAY),
    sample("cudaOpenMP", gpus=2),
    sample("reduction", "--n=67108864"),
    sample("scan"),
    sample("sortingNetworks"),
    sample("threadFenceReduction", "--n=67108864"),
    sample("streamOrderedAllocation", **STAY),
    sample("streamOrderedAllocationP2P", gpus=2, **STAY),
    sample("convolutionSeparable"),
    sample("histogram"),
    sample("scalarProd"),
    sample("shfl_scan"),
    sample("reductionMultiBlockCG"),
    sample("radixSortThrust"),
    sample("threadMigration"),
    sample("simpleCudaGraphs"),
    sample("graphMemoryNodes", **STAY),
    sample("graphMemoryFootprint", **STAY),
    sample("graphConditionalNodes", **STAY),
    sample("jacobiCudaGraphs"),
    sample("cudaTensorCoreGemm"),
    sample("memMapIPCDrv", gpus=2, **STAY),
    sample("StreamPriorities"),
    sample("newdelete"),
    sample("warpAggregatedAtomicsCG"),
    sample("conjugateGradient"),
    sample("conjugateGradientCudaGraphs"),
    sample("conjugateGradientMultiDeviceCG", gpus=2, **STAY),
    sample("conjugateGradientPrecond"),
    sample("simpleCUBLAS"),
    sample("matrixMulCUBLAS"),
    sample("batchCUBLAS"),
    sample("simpleCUFFT"),
    sample("convolutionFFT2D"),
    sample("BlackScholes"),
    sample("MonteCarloMultiGPU", gpus=2),
    sample("p2pBandwidthLatencyTest", gpus=2, limit_s=300),
    sample("quasirandomGenerator"),
    sample("SobolQRNG", "--vectors=1000000", "--dimensions=40"),
    sample("fastWalshTransform"),
    sample("binomialOptions", **STAY),  # It has less memory than can move.
    sample("FDTD3d", limit_s=300),
    sample("transpose", "-dimX=4096", "-dimY=4096"),
    sample("alignedTypes"),
    sample("UnifiedMemoryPerf", compare="verdict", limit_s=300, **STAY),
)

# -t threads, -g GPUs a thread, -b and -e sizes, -n iterations, -w warm-up, -c checks.
SIZES = ("-b", "1M", "-e", "64M", "-f", "4", "-n", "10", "-w", "2", "-c", "1")
NCCL_TESTS = tuple(
    nccl_test(name, "-g", "2", *SIZES) for name in
    ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv", "alltoall")) + (
    Program("nccl-tests.all_reduce_threads",
            ("{built}/nccl-tests/all_reduce_perf", "-t", "2", "-g", "1", *SIZES), compare="nccl",
            repeats=True, gpus=2, environment=NCCL, smallest="64KiB", moves=False),)


def cupy_suite(part):
    return python_tests(f"cupy-tests.{part}", "cupy", f"{{suites}}/cupy/tests/cupy_tests/{part}",
                        modules=("cupy", "pytest"), limit_s=400)


CUPY = tuple(cupy_suite(part) for part in
             ("core_tests/test_ndarray.py", "cuda_tests", "creation_tests", "sorting_tests"))

# A worker of its own runs the tests: a crash or a hang fails one of them, and another worker goes on. Only
# a thread ends a test that hangs in the driver. `conftest.py` of PyTorch 2.9 needs an older pytest.
WORKER = ("-n", "1", "--max-worker-restart", "40", "--timeout", "120", "--timeout-method", "thread",
          "--noconftest", "--rootdir", ".")


def torch_suite(name, file, *selection, **others):
    """Of another version of PyTorch than what is installed, some fail bare, too."""
    return python_tests(f"torch-tests.{name}", "pytorch/test", *WORKER, file, *selection,
                        modules=("torch", "expecttest", "psutil", "pytest", "pytest_timeout", "xdist"),
                        **{"limit_s": 600, **others})


ALLOCATORS = "TestCudaMallocAsync or TestBlockStateAbsorption or TestMemPool"
# test_cuda_expandable_segments.py is test_cuda.py with this setting, which pytest would not make.
EXPANDABLE = {"environment": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, "options": ("--vmm",)}
# The tests of contexts want a process each.
CONTEXT_TESTS = ("set_device_0", "str_repr", "copy", "pin_memory")

TORCH = (
    torch_suite("cuda", "test_cuda.py::TestCuda", "-k", "not graph"),
    # Kernels that two threads launch for the first time: beside other programs, one has failed.
    torch_suite("cuda_threads", "test_cuda.py::TestCuda", "-k", "multiple_threads_same_device"),
    torch_suite("cuda_graphs", "test_cuda.py::TestCuda", "-k", "graph"),
    torch_suite("cuda_allocators", "test_cuda.py", "-k", ALLOCATORS),
    torch_suite("cuda_others", "test_cuda.py", "--deselect", "test_cuda.py::TestCuda::",
                "-k", f"not ({ALLOCATORS})"),
    torch_suite("expandable", "test_cuda.py::TestCuda", "-k", "not graph", **EXPANDABLE),
    torch_suite("expandable_graphs", "test_cuda.py", "-k",
                "TestBlockStateAbsorption or test_graph or test_cuda_graph", **EXPANDABLE),
    torch_suite("multigpu", "test_cuda_multigpu.py", gpus=2, environment=NCCL),
    *(torch_suite(f"primary_ctx.{test}", f"test_cuda_primary_ctx.py::TestCudaPrimaryCtx::test_{test}",
                  gpus=2, **STAY) for test in CONTEXT_TESTS),  # They end before anything moves.
)

OTHERS = SAMPLES + NCCL_TESTS + CUPY + TORCH
