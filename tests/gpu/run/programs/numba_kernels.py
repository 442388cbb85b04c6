"""Kernels in Numba, with arrays of its own, pinned and mapped ones, and streams."""

import numpy

if not hasattr(numpy, "row_stack"):  # Numba asks for it, NumPy 2.5 has it no more.
    numpy.row_stack = numpy.vstack
from numba import cuda

import rounds

COUNT = 4 << 20


@cuda.jit
def mix(source, target, factor):
    for i in range(cuda.grid(1), source.size, cuda.gridsize(1)):
        target[i] = (source[i] * factor + source[(i * 31) % source.size]) % 1000003


@cuda.jit
def count(values, bins):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(bins, values[i] % bins.size, 1)


def one_round():
    host = cuda.pinned_array(COUNT, dtype=numpy.int64)
    host[:] = numpy.arange(COUNT)
    streams = [cuda.stream() for _ in range(3)]
    first = cuda.to_device(host, stream=streams[0])
    streams[0].synchronize()
    second, bins = cuda.device_array_like(first), cuda.to_device(numpy.zeros(4096, numpy.int32))
    for number in range(9):
        stream = streams[number % 3]
        mix[256, 256, stream](first, second, 7 + number)
        count[256, 256, stream](second, bins)
        stream.synchronize()
        first, second = second, first
    result = first.copy_to_host()
    return rounds.digest(result, bins.copy_to_host())


rounds.repeat(one_round)
