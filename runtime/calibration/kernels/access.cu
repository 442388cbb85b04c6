// The kernels of `access_kernels.hpp`. `make_ptx.sh` makes access.ptx.inc of them.
namespace {

using Word = unsigned long long;

struct alignas(16) Vector {
  unsigned words[4];
};

constexpr unsigned depth = 8;  // Loads of a thread that are under way at once.

}  // namespace

/// Reads all vectors, `passes` times. No sum is ever `impossible` but by chance, and then the store
/// does no harm: the loads are needed for it.
extern "C" __global__ void __launch_bounds__(512)
    vmart_access_read(const Vector* data, Word vectors, Word passes, Word impossible, Word* sink) {
  unsigned sum = 0;
  const Word threads = static_cast<Word>(gridDim.x) * blockDim.x;
  const Word self = static_cast<Word>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (Word pass = 0; pass < passes; ++pass) {
    Word at = self;
    for (; at + (depth - 1) * threads < vectors; at += depth * threads) {
      Vector loaded[depth];
#pragma unroll
      for (unsigned i = 0; i < depth; ++i) {
        // Volatile: a pass that reads the same once more is not left out.
        asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(loaded[i].words[0]), "=r"(loaded[i].words[1]),
                       "=r"(loaded[i].words[2]), "=r"(loaded[i].words[3])
                     : "l"(data + at + i * threads)
                     : "memory");
      }
#pragma unroll
      for (unsigned i = 0; i < depth; ++i) {
        sum += loaded[i].words[0] ^ loaded[i].words[1] ^ loaded[i].words[2] ^ loaded[i].words[3];
      }
    }
    for (; at < vectors; at += threads) sum += data[at].words[0];
  }
  if (sum == impossible) *sink = sum;
}

/// Follows a chain of offsets in words, one load after the other.
extern "C" __global__ void vmart_access_chase(const Word* data, Word steps, Word* sink) {
  Word at = 0;
  for (Word step = 0; step < steps; ++step) {
    asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(at) : "l"(data + at) : "memory");
  }
  if (at == ~0ull) *sink = at;
}
