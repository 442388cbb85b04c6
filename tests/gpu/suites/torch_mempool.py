#!/usr/bin/env python3
"""PyTorch's own TestMemPool (class TestMemPool of test/test_cuda.py) bare, and with vmart as the allocator of every pool.

    torch_mempool.py CLONE [--logs DIR]

CLONE is a clone of pytorch, or a folder with that class in a file test_mempool.py. Each test has a process of its own. What
"with vmart" means is in plugins/vmart_in_torch.py: pools and graphs that name no allocator have vmart's, and the tests'
"dummy allocator", which takes managed memory otherwise, takes vmart's and notes its calls as before. So all tests apply,
except that some ask nothing of an allocator (`test_mempool_id`, `test_mempool_multithread`).

Needs PyTorch 2.11, its test dependencies (expecttest), pytest with xdist and timeout, a C compiler, ninja and a GPU.
About 3 minutes, most of it the compiler for the tests' own allocator. Leaves with 77 if something is missing.
"""

import sys
import tempfile

import compare

# None is known to fail.
EXPLAINED = {}


def main():
    given = compare.arguments(__doc__)
    alone = given.clone / "test_mempool.py"
    file = alone if alone.exists() else given.clone / "test" / "test_cuda.py"
    modules = ("torch", "vmart", "pytest", "xdist", "pytest_timeout", "expecttest", "numpy", "psutil")
    gpus = compare.require(modules, [file], 1)
    # As many workers as tests: PyTorch's checks count the segments of the process, and the tests' allocator is one library.
    part = compare.Part([f"{file}::TestMemPool"], given.workers or 15, timeout_s=240)
    with tempfile.TemporaryDirectory() as extensions:
        return compare.run(
            compare.Suite(
                name="torch_mempool",
                folder=file.parent,
                parts=[part],
                plugins={"bare": ["own_extensions"], "vmart": ["own_extensions", "vmart_in_torch"]},
                test_timeout_s=150,
                environment={mode: {"SUITE_EXTENSIONS": extensions} for mode in compare.MODES},
                explained=EXPLAINED,
                passed_needed=13,
            ),
            given,
            gpus,
        )


if __name__ == "__main__":
    sys.exit(main())
