// The application of the live benchmarks. See make_ptx.sh.

using Word = unsigned long long;

__device__ Word mixed(Word word) {
  word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9ull;
  word = (word ^ word >> 27) * 0x94D049BB133111EBull;
  return word ^ word >> 31;
}

__device__ Word now_ns() {
  Word now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

// Adds one to `touches` words, each in the next one of `places` places, then keeps running until
// `nanoseconds` have passed, and stores `number` where the processor can see it.
extern "C" __global__ void vmart_bench_write(Word* begin, Word places, Word stride_words,
                                             Word place_words, Word touches, Word nanoseconds,
                                             Word* progress, Word number) {
  const Word start = now_ns();
  const Word index = static_cast<Word>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index < touches) {
    const Word count = number * touches + index;
    const Word word = mixed(count * 0x9E3779B97F4A7C15ull) % place_words;
    atomicAdd(begin + count % places * stride_words + word, 1ull);
  }
  if (index != 0) return;
  while (now_ns() - start < nanoseconds) {
  }
  __threadfence_system();
  *static_cast<volatile Word*>(progress) = number;
}
