"""Programs that nobody here wrote: NVIDIA's cuda-samples and nccl-tests, and CuPy's tests.

The samples check their own results. Where a sample can work on more than a moment's work, it is told to.
"""

from program_list import NCCL, Program


def sample(name, *arguments, **others):
    """They print PASSED or the like, and times. Many of their allocations are small."""
    return Program(f"sample.{name}", (f"{{built}}/samples/{name}", *arguments),
                   **{"compare": "sample", "repeats": True, "smallest": "64KiB",
                      "folder": "{built}/samples", **others})


def nccl_test(name, *arguments, **others):
    """Its table has a column of errors. Times and bandwidths are left out."""
    return Program(f"nccl-tests.{name}", (f"{{built}}/nccl-tests/{name}_perf", *arguments),
                   **{"compare": "nccl", "repeats": True, "gpus": 2, "environment": NCCL,
                      "smallest": "64KiB", **others})


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
    sample("asyncAPI"),
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
    sample("p2pBandwidthLatencyTest", gpus=2, compare="verdict", limit_s=300),
    sample("quasirandomGenerator"),
    sample("SobolQRNG", "--vectors=1000000", "--dimensions=40"),
    sample("fastWalshTransform"),
    sample("binomialOptions"),
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
            repeats=True, gpus=2, environment=NCCL, smallest="64KiB"),)


def cupy_suite(part):
    return Program(f"cupy-tests.{part}",
                   ("{python}", "-B", "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "--tb=line",
                    f"{{suites}}/cupy/tests/cupy_tests/{part}"),
                   compare="pytest", repeats=True, modules=("cupy", "pytest"), limit_s=400,
                   folder="{suites}/cupy", exit=None)


CUPY = tuple(cupy_suite(part) for part in
             ("core_tests/test_ndarray.py", "cuda_tests", "creation_tests", "sorting_tests"))

OTHERS = SAMPLES + NCCL_TESTS + CUPY
