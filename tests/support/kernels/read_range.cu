// The kernel of `read_kernel.cpp`; `make_ptx.sh` makes its PTX from this file.

typedef unsigned long long Word;

// Adds up the words of `pairs` repeatedly, as fast as memory delivers them. One addition per block
// to *sum, since additions to one word are serialised.
extern "C" __global__ void vmart_read(const ulonglong2* pairs, Word count, Word passes, Word* sum) {
  const Word first = blockIdx.x * Word{blockDim.x} + threadIdx.x;
  const Word stride = gridDim.x * Word{blockDim.x};
  Word part = 0;
  for (Word pass = 0; pass < passes; ++pass) {
    Word i = first;
    for (; i + 3 * stride < count; i += 4 * stride) {  // Keeps four loads in flight.
      const ulonglong2 a = pairs[i], b = pairs[i + stride];
      const ulonglong2 c = pairs[i + 2 * stride], d = pairs[i + 3 * stride];
      part += a.x + a.y + b.x + b.y + c.x + c.y + d.x + d.y;
    }
    for (; i < count; i += stride) part += pairs[i].x + pairs[i].y;
    // Keeps the loads of each pass: the compiler could multiply their sum instead.
    asm volatile("" ::: "memory");
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) part += __shfl_down_sync(0xFFFFFFFFu, part, lanes);
  __shared__ Word block_sum;
  if (threadIdx.x == 0) block_sum = 0;
  __syncthreads();
  if (threadIdx.x % 32 == 0) atomicAdd(&block_sum, part);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(sum, block_sum);
}
