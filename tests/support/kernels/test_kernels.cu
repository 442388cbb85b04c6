// The kernels of `test_kernels.cpp`; `make_ptx.sh` makes their PTX from this file.

typedef unsigned long long Word;

__device__ Word first_index() { return blockIdx.x * Word{blockDim.x} + threadIdx.x; }
__device__ Word stride() { return gridDim.x * Word{blockDim.x}; }

extern "C" __global__ void vmart_fill(Word* words, Word count, Word seed) {
  for (Word i = first_index(); i < count; i += stride()) words[i] = seed + i;
}

extern "C" __global__ void vmart_add(Word* words, Word count, Word value) {
  for (Word i = first_index(); i < count; i += stride()) words[i] += value;
}

extern "C" __global__ void vmart_compare(const Word* words, Word count, Word seed,
                                         Word* mismatches) {
  Word wrong = 0;
  for (Word i = first_index(); i < count; i += stride()) wrong += words[i] != seed + i;
  if (wrong != 0) atomicAdd(mismatches, wrong);
}

extern "C" __global__ void vmart_sum(const Word* words, Word count, Word* sum) {
  Word part = 0;
  for (Word i = first_index(); i < count; i += stride()) part += words[i];
  if (part != 0) atomicAdd(sum, part);
}

extern "C" __global__ void vmart_atomic_add(Word* word, Word value) { atomicAdd(word, value); }

extern "C" __global__ void vmart_store(Word* word, Word value) { *word = value; }

extern "C" __global__ void vmart_load(const volatile Word* word, Word* out) { *out = *word; }

extern "C" __global__ void vmart_beat(const volatile Word* stop, Word* words, Word count,
                                      volatile Word* beats) {
  __shared__ bool go;
  for (Word beat = 1;; ++beat) {
    if (threadIdx.x == 0) go = *stop == 0;
    __syncthreads();
    if (!go) return;
    for (Word i = threadIdx.x; i < count; i += blockDim.x) words[i] += 1;
    __syncthreads();
    if (threadIdx.x == 0) *beats = beat;
  }
}

extern "C" __global__ void vmart_spin(Word nanoseconds) {
  Word start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
}
