#!/usr/bin/env python3
"""vmart.MemoryResource with real GPUs: kernels that cuda.core launches, directly and in a graph, add to buffers
that move beside them; copies, fills and frees in the order of streams.

Leaves with 77 without the package, cuda.core 1.2, a compiler of kernels (NVRTC) and two GPUs.
"""

import ctypes
import random
import sys

EXIT_SKIPPED = 77
ROUNDS, WORDS = 200, 4 << 20
NBYTES = 8 * WORDS
ADD_ONE = """
extern "C" __global__ void add_one(long long* words, long long count) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  for (; i < count; i += (long long)gridDim.x * blockDim.x) words[i] += 1;
}
"""


class Adder:
    """A kernel that adds 1 to all words of a buffer."""

    def __init__(self, core):
        self.core = core
        options = core.ProgramOptions(std="c++17", arch=f"sm_{core.Device().arch}")
        compiled = core.Program(ADD_ONE, "c++", options=options).compile("cubin")
        self.kernel = compiled.get_kernel("add_one")
        self.config = core.LaunchConfig(grid=256, block=256)

    def enqueue(self, stream, buffer):
        self.core.launch(stream, self.config, self.kernel, int(buffer.handle), WORDS)


def words_of(core, buffer, stream):
    """Copies a buffer to the host."""
    host = core.LegacyPinnedMemoryResource().allocate(NBYTES, stream=stream)
    buffer.copy_to(host, stream=stream)
    stream.sync()
    words = (ctypes.c_int64 * WORDS)()
    ctypes.memmove(words, int(host.handle), NBYTES)
    host.close()
    return words


def require_all(words, value):
    assert words[0] == value, (words[0], value)
    same = bytes(ctypes.c_int64(value)) * WORDS
    assert memoryview(words).cast("B") == memoryview(same), "words of one buffer differ"


def computes_beside_moves(core, vmart, resource, stream, choice):
    """Integers are added on the GPU while they move; each sum is exact."""
    adder = Adder(core)
    buffers = [resource.allocate(NBYTES, stream=stream) for _ in range(4)]
    addresses = [int(buffer.handle) for buffer in buffers]
    for buffer in buffers:
        buffer.fill(0, stream=stream)
    building = stream.create_graph_builder().begin_building()
    adder.enqueue(building, buffers[0])
    replayed = building.end_building().complete()
    added, running = [0] * 4, []
    for _ in range(ROUNDS):
        number = choice.randrange(4)
        if number == 0:
            replayed.launch(stream)
        else:
            adder.enqueue(stream, buffers[number])
        added[number] += 1
        place = choice.choice(["gpu0", "gpu1", "host0"])
        running.append(vmart.migrate_async(choice.choice(buffers), place))
        if len(running) == 4:
            running.pop(0).wait(120)
    for migration in running:
        migration.wait(120)
    for number, buffer in enumerate(buffers):
        require_all(words_of(core, buffer, stream), added[number])
    assert addresses == [int(buffer.handle) for buffer in buffers]
    replayed.close()
    for buffer in buffers:
        buffer.close()


def says_whose_kernels_use_it(vmart, resource, stream):
    buffer = resource.allocate(NBYTES, stream=stream)
    vmart.migrate(buffer, "gpu1")
    assert buffer.device_id == 0 and buffer.__dlpack_device__() == (2, 0)
    assert not buffer.is_managed and not buffer.is_host_accessible
    buffer.close()


def frees_in_the_order_of_streams(resource, device, vmart, stream):
    first = resource.allocate(NBYTES, stream=stream)
    address = int(first.handle)
    first.close()
    again = resource.allocate(NBYTES, stream=stream)
    assert int(again.handle) == address, "a free block was not reused on its stream"
    again.close()
    other = device.create_stream()
    left = resource.allocate(NBYTES, stream=other)
    other.close()
    left.close()
    stream.sync()
    resource.pool.synchronize()
    assert resource.pool.stats().used_bytes == 0, resource.pool.stats().used_bytes


def main():
    try:
        import cuda.core as core

        import vmart

        vmart.MemoryResource
    except ImportError as error:
        print(f"SKIPPED: {error}")
        return EXIT_SKIPPED
    try:
        gpus = len(core.Device.get_all_devices())
        device = core.Device(0)
        device.set_current()
        Adder(core)
    except Exception as error:  # No driver, or no NVRTC: each has its own class.
        print(f"SKIPPED: {error}")
        return EXIT_SKIPPED
    if gpus < 2:
        print(f"SKIPPED: needs 2 GPUs, has {gpus}")
        return EXIT_SKIPPED
    stream = device.create_stream()
    vmart.attach(stream)
    resource = vmart.MemoryResource(device, tag="buffers")
    computes_beside_moves(core, vmart, resource, stream, random.Random(7))
    says_whose_kernels_use_it(vmart, resource, stream)
    frees_in_the_order_of_streams(resource, device, vmart, stream)
    vmart.detach(stream)
    resource.close()
    print(vmart.stats().migrations, "moves")
    return 0


if __name__ == "__main__":
    sys.exit(main())
