// The kernels of `twin_kernels.cpp`; `make_ptx.sh` makes their PTX from this file. Both files use
// the same arithmetic.

typedef unsigned long long Word;

__device__ Word mixed(Word word) {
  word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9ull;
  word = (word ^ word >> 27) * 0x94D049BB133111EBull;
  return word ^ word >> 31;
}

extern "C" __global__ void vmart_twin_add(Word* array, Word* twin, Word lines, Word part,
                                          Word parts, Word seed, Word adds, Word factor) {
  const Word line_words = 64, lines_of_part = lines / parts;
  const Word stride = gridDim.x * Word{blockDim.x};
  for (Word i = blockIdx.x * Word{blockDim.x} + threadIdx.x; i < adds; i += stride) {
    const Word random = mixed(seed + i * 0x9E3779B97F4A7C15ull);
    const Word line = (random % lines_of_part) * parts + part;
    const Word word = line * line_words + (random >> 32) % (line_words - 1);
    const Word value = mixed(random) * factor;
    // Several GPUs add at the same time, hence atomic for the system.
    atomicAdd_system(array + word, value);
    atomicAdd_system(twin + word, value);
  }
}

// Replaces the settling kernel, with its arguments, and reports that nothing changed.
extern "C" __global__ void vmart_twin_settle_nothing(void*, const void*, Word*, Word*,
                                                     Word* dirty_out, Word, Word, Word) {
  *dirty_out = 0;
}

extern "C" __global__ void vmart_twin_compare(const Word* array, const Word* twin, Word words,
                                              Word* different) {
  Word count = 0;
  for (Word i = blockIdx.x * Word{blockDim.x} + threadIdx.x; i < words;
       i += gridDim.x * Word{blockDim.x}) {
    count += array[i] != twin[i];
  }
  if (count != 0) atomicAdd_system(different, count);
}
