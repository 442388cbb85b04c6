"""CuPy: products, kernels of one's own, streams, FFT, random numbers, with its pool and without."""

import cupy

import rounds

ADD = cupy.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = fmodf(x * 3 + y, 1021)", "add")
MIX = cupy.RawKernel("""
extern "C" __global__ void mix(const long long* in, long long* out, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    out[i] = (in[i] * 6364136223846793005ll + in[(i * 7919ll) % count]) ^ (in[i] >> 17);
}""", "mix")
COUNT = 4 << 20


def work():
    x = cupy.arange(COUNT, dtype=cupy.float32) % 1021
    y = cupy.ones(COUNT, dtype=cupy.float32)
    for _ in range(6):
        y = ADD(x, y)
    whole = cupy.arange(COUNT, dtype=cupy.int64)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    cupy.cuda.Device().synchronize()
    for stream in streams:  # Each waits for the one before.
        with stream:
            mixed = cupy.empty_like(whole)
            MIX((256,), (256,), (whole, mixed, COUNT))
            whole = mixed
        stream.synchronize()
    square = (cupy.arange(1 << 20, dtype=cupy.float32) % 7 - 3).reshape(1024, 1024)
    product = square @ square.T  # Whole numbers: exact.
    spectrum = cupy.fft.ifft(cupy.fft.fft(x[: 1 << 20])).real.round().astype(cupy.int32)
    ordered = cupy.sort(whole[: 1 << 20])
    drawn = cupy.random.RandomState(5).randint(0, 1000, 1 << 20)
    return rounds.digest(*(cupy.asnumpy(part) for part in
                           (y, whole, product, spectrum, ordered, cupy.cumsum(drawn))))


def one_round():
    pooled = work()
    cupy.get_default_memory_pool().free_all_blocks()
    with cupy.cuda.using_allocator(None):  # Straight to cudaMalloc and cudaFree.
        plain = work()
    return f"with a pool {pooled}, without {plain}"


rounds.repeat(one_round)
