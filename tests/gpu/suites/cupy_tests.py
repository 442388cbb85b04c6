#!/usr/bin/env python3
"""CuPy's own tests of arrays and memory, bare and with vmart as its allocator (`vmart.cupy.use()`).

    cupy_tests.py CLONE [--logs DIR] [--workers 24]

CLONE is a clone of cupy at the tag of the installed version (14.x), or what it has of pyproject.toml and tests. The tests are
those of TESTS below. CuPy's own CUPY_TEST_RANDOM_SUBSAMPLE takes a fifteenth of the parameters and types, here with a fixed
seed: about 3,000 tests, each of which compiles kernels. The bare run compiles first, and the other one finds its kernels.

Needs CuPy 14, its test dependencies, pytest with xdist and timeout, vmart, and a GPU; with two, tests for several GPUs run too.
About 5 minutes with 24 workers. Leaves with 77 if something is missing.
"""

import os
import sys

import compare

TESTS = [
    *(
        f"core_tests/test_{name}.py"
        for name in (
            "array_function", "carray", "core", "dlpack", "elementwise", "flags", "function", "internal", "iter", "multithreading",
            "ndarray", "ndarray_adv_indexing", "ndarray_byteswap", "ndarray_complex_ops", "ndarray_contiguity", "ndarray_conversion",
            "ndarray_copy_and_view", "ndarray_cuda_array_interface", "ndarray_elementwise_op", "ndarray_get", "ndarray_indexing",
            "ndarray_math", "ndarray_owndata", "ndarray_reduction", "ndarray_scatter", "ndarray_ufunc", "ndarray_unary_op",
            "reduction", "scan", "structured", "syncdetect", "ufunc_methods", "userkernel",
        )
    ),
    "creation_tests",
    "indexing_tests",
    "manipulation_tests",
    *(
        f"math_tests/test_{name}.py"
        for name in ("explog", "floating", "hyperbolic", "misc", "rounding", "sumprod", "trigonometric", "window")
    ),
    *(f"cuda_tests/test_{name}.py" for name in ("device", "graph", "memory", "stream")),
]  # fmt: skip

# Classes of cuda_tests/test_memory.py that use CuPy's own pools, or set an allocator of their own: they would not use vmart.
NOT_APPLICABLE = (
    "TestSingleDeviceMemoryPool", "TestMemoryPool", "TestMallocAsync", "TestMemoryAsyncPool", "TestAllocator",
    "TestAllocatorDisabled", "TestPythonFunctionAllocator", "TestParseMempoolLimitEnvVar",
)  # fmt: skip

NULL_STREAMS = (
    "copies between GPUs on their NULL streams right after work of the other GPU. The driver orders them for memory of "
    "cudaMalloc, but not for memory of cuMemMap, as vmart's is; under `vmart run` they are ordered"
)
EXPLAINED = {
    "*creation_tests/test_from_data.py::TestFromData::test_copy_multigpu*": NULL_STREAMS,
    "*manipulation_tests/test_basic.py::TestBasic::test_copyto_multigpu*": NULL_STREAMS,
}


def main():
    given = compare.arguments(__doc__)
    tests = given.clone / "tests"
    modules = ("cupy", "vmart", "pytest", "xdist", "pytest_timeout", "numpy", "scipy")
    gpus = compare.require(modules, [tests / "cupy_tests" / name for name in TESTS] + [given.clone / "pyproject.toml"], 1)
    classes = " or ".join(NOT_APPLICABLE)
    part = compare.Part(
        [*(f"cupy_tests/{name}" for name in TESTS), "-k", f"not (test_memory and ({classes}))"],
        given.workers or min(24, os.cpu_count() or 1),
        timeout_s=280,
    )
    environment = {
        "CUPY_TEST_RANDOM_SUBSAMPLE": "1",
        "_CUPY_TEST_SUBSAMPLE_SEED": "14",
        "CUPY_TEST_GPU_LIMIT": str(gpus),
        # Threads of NumPy's own in each worker would take each other's cores.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    suite = compare.Suite(
        name="cupy",
        folder=tests,
        parts=[part],
        plugins={"vmart": ["vmart_in_cupy"]},
        test_timeout_s=60,
        environment={mode: environment for mode in compare.MODES},
        explained=EXPLAINED,
        passed_needed=300,
    )
    return compare.run(suite, given, gpus)


if __name__ == "__main__":
    sys.exit(main())
