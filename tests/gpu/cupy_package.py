#!/usr/bin/env python3
"""vmart.cupy and vmart.numpy with real GPUs: CuPy computes on arrays that move beside its kernels; NumPy
arrays are CuPy arrays without a copy, and come to the CPU when it touches them.

Leaves with 77 without the package, CuPy and two GPUs.
"""

import random
import sys

EXIT_SKIPPED = 77
ROUNDS, WORDS = 200, 4 << 20


def computes_beside_moves(cupy, vmart, choice):
    """Integers are added on the GPU while they move; each sum is exact."""
    with vmart.cupy.use(tag="beside"):
        arrays = [cupy.full(WORDS, number, dtype="int64") for number in range(4)]
        running = []
        for _ in range(ROUNDS):
            array = choice.choice(arrays)
            array += 1
            place = choice.choice(["gpu0", "gpu1", "host0"])
            running.append((array, vmart.migrate_async(choice.choice(arrays), place)))
            if len(running) == 4:
                running.pop(0)[1].wait(120)
        for _, migration in running:
            migration.wait(120)
        added = sum(int(array[0]) for array in arrays) - sum(range(4))
        assert added == ROUNDS, (added, ROUNDS)
        for array in arrays:
            assert int(array.min()) == int(array.max()), "words of one array differ"
        del array, arrays, running
    cupy.cuda.Device().synchronize()


def shares_with_numpy(cupy, vmart):
    host = vmart.numpy.zeros(WORDS, "float64", at="host0")
    device = cupy.asarray(vmart.numpy.on_gpu(host))
    assert device.data.ptr == host.ctypes.data
    for place in ("host0", "gpu0", "gpu1"):
        vmart.migrate(host, place)
        device += 1
        cupy.cuda.Device().synchronize()
        host += 1  # Faults what lies in HBM.
    assert (host == 6).all() and bool((device == 6).all())


def main():
    try:
        import cupy

        import vmart
    except ImportError as error:
        print(f"SKIPPED: {error}")
        return EXIT_SKIPPED
    try:
        gpus = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        print(f"SKIPPED: {error}")
        return EXIT_SKIPPED
    if gpus < 2:
        print(f"SKIPPED: needs 2 GPUs, has {gpus}")
        return EXIT_SKIPPED
    computes_beside_moves(cupy, vmart, random.Random(7))
    shares_with_numpy(cupy, vmart)
    print(vmart.stats().migrations, "moves")
    return 0


if __name__ == "__main__":
    sys.exit(main())
