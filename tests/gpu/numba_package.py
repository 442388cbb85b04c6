#!/usr/bin/env python3
"""vmart.numba with real GPUs: kernels of Numba add to arrays that move beside them, on the default stream and on
streams of Numba's; arrays are freed while work is enqueued, and on both GPUs.

Leaves with 77 without the package, Numba, what compiles its kernels (NVVM) and two GPUs.
"""

import random
import sys

EXIT_SKIPPED = 77
ROUNDS, WORDS, SMALL_WORDS = 200, 4 << 20, 1 << 17


def adder(cuda):
    @cuda.jit("void(int64[::1])")
    def add_one(words):
        for i in range(cuda.grid(1), words.size, cuda.gridsize(1)):
            words[i] += 1

    return add_one


def computes_beside_moves(cuda, numpy, vmart, choice):
    """Integers are added on the GPU while they move; each sum is exact."""
    add_one = adder(cuda)
    arrays = [cuda.to_device(numpy.full(WORDS, number, "int64")) for number in range(4)]
    addresses = [array.__cuda_array_interface__["data"][0] for array in arrays]
    streams = [cuda.default_stream(), *(cuda.stream() for _ in range(3))]
    expected, running = list(range(4)), []
    for _ in range(ROUNDS):
        number = choice.randrange(4)
        add_one[256, 256, streams[number]](arrays[number])
        expected[number] += 1
        place = choice.choice(["gpu0", "gpu1", "host0"])
        running.append(vmart.migrate_async(choice.choice(arrays), place))
        if len(running) == 4:
            running.pop(0).wait(120)
    for migration in running:
        migration.wait(120)
    cuda.synchronize()
    for array, value in zip(arrays, expected):
        words = array.copy_to_host()
        assert (words == value).all(), (words.min(), words.max(), value)
    assert addresses == [array.__cuda_array_interface__["data"][0] for array in arrays]


def frees_behind_enqueued_work(cuda, numpy):
    """A block that is freed and given out again is not written by work from before, whatever its stream."""
    add_one = adder(cuda)
    streams = [cuda.stream() for _ in range(2)]
    zeros = cuda.pinned_array(SMALL_WORDS, "int64")
    zeros[:] = 0
    for _ in range(200):
        dropped = cuda.device_array(SMALL_WORDS, "int64", stream=streams[0])
        for _ in range(20):
            add_one[256, 256, streams[0]](dropped)
        del dropped
        next_one = cuda.device_array(SMALL_WORDS, "int64", stream=streams[1])
        next_one.copy_to_device(zeros, stream=streams[1])
        streams[0].synchronize()
        found = next_one.copy_to_host(stream=streams[1])
        streams[1].synchronize()
        assert not found.any(), "work from before wrote to a new array"


def uses_both_gpus(cuda, numpy, vmart):
    kept = []
    for number in (1, 0):
        with cuda.gpus[number]:
            kept.append(cuda.to_device(numpy.arange(WORDS)))
            assert {str(extent.at) for extent in vmart.where(kept[-1])} == {f"gpu({number})"}
    with cuda.gpus[1]:
        manager = cuda.current_context().memory_manager
        pool = manager.pool
        used = pool.stats().used_bytes
    del kept[0]  # With GPU 0 as the current one.
    manager.deallocations.clear()
    assert pool.stats().used_bytes <= used - 8 * WORDS, "an array of another GPU was not freed"


def main():
    try:
        import numpy

        if not hasattr(numpy, "row_stack"):  # Numba asks for it, NumPy 2.5 has it no more.
            numpy.row_stack = numpy.vstack
        from numba import cuda

        import vmart

        manager = vmart.numba.use(tag="arrays")
    except ImportError as error:
        print(f"SKIPPED: {error}")
        return EXIT_SKIPPED
    if not cuda.is_available():
        print(f"SKIPPED: {cuda.cuda_error()}")
        return EXIT_SKIPPED
    if len(cuda.gpus) < 2:
        print(f"SKIPPED: needs 2 GPUs, has {len(cuda.gpus)}")
        return EXIT_SKIPPED
    try:
        adder(cuda)
    except Exception as error:  # No NVVM: the class depends on Numba's version.
        print(f"SKIPPED: {error}")
        return EXIT_SKIPPED
    assert isinstance(cuda.current_context().memory_manager, manager)
    computes_beside_moves(cuda, numpy, vmart, random.Random(7))
    frees_behind_enqueued_work(cuda, numpy)
    uses_both_gpus(cuda, numpy, vmart)
    print(cuda.implementation, vmart.stats().migrations, "moves")
    return 0


if __name__ == "__main__":
    sys.exit(main())
