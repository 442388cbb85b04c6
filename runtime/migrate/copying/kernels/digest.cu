// The kernels of `digest.cpp`, whose PTX is made from this file by `make_ptx.sh`. A block works on a
// tile, a thread on a column of 16 vectors; see runtime/migrate/copying/README.md.

#include "digest_math.hpp"

using namespace vma::digest_math;

namespace {

constexpr unsigned depth = 8;  // Loads under way in a thread; more spills registers.
constexpr unsigned warps_max = columns_max / 32;
constexpr unsigned whole_warp = 0xFFFFFFFFu;

struct Shared {
  Vector row_keys[row_keys];
  Word column_keys[column_keys][columns_max];  // Here, since a thread has no registers left.
  // Two sets in turn: a warp may write those of the next tile while the first still reads.
  Word sums[2][passes][warps_max];
};

// Volatile: each load is made exactly once. A compiler that loaded again, rather than keep a
// register, could store one value and digest another (I6).
__device__ __forceinline__ Vector load_once(const Vector* address) {
  Vector v;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.halves[0]), "=r"(v.halves[1]), "=r"(v.halves[2]), "=r"(v.halves[3])
               : "l"(address)
               : "memory");
  return v;
}

__device__ __forceinline__ void store(Vector* address, const Vector& v) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(v.halves[0]),
               "r"(v.halves[1]), "r"(v.halves[2]), "r"(v.halves[3])
               : "memory");
}

__device__ __forceinline__ void make_keys(Shared& shared, Word key0, Word key1) {
#pragma unroll 1
  for (unsigned row = threadIdx.x; row < row_keys; row += blockDim.x) {
    shared.row_keys[row] = row_key(key0, key1, row);
  }
#pragma unroll 1
  for (unsigned i = 0; i < column_keys; ++i) {
    shared.column_keys[i][threadIdx.x] = column_key(key0, key1, threadIdx.x, i);
  }
  __syncthreads();
}

/// The vector, and steps to the one below. Out of the optimiser's sight: it would keep the address of
/// each row in a register of its own.
template <typename Pointer>
__device__ __forceinline__ Pointer next_row(Pointer& vector) {
  const Pointer here = vector;
  asm("mad.wide.u32 %0, %1, %2, %0;" : "+l"(vector) : "r"(blockDim.x), "n"(sizeof(Vector)));
  return here;
}

/// Reads the thread's column, and stores it if there is a target.
template <bool copies>
__device__ __forceinline__ Column read_column(const Shared& shared, Vector* target,
                                              const Vector* source) {
  Column column;
#pragma unroll 1
  for (unsigned row = 0; row < rows; row += depth) {
    Vector data[depth];
#pragma unroll
    for (unsigned i = 0; i < depth; ++i) data[i] = load_once(next_row(source));
    Vector key = shared.row_keys[row];
#pragma unroll
    for (unsigned i = 0; i < depth; ++i) {
      const Vector next = shared.row_keys[row + i + 1];
      if (copies) store(next_row(target), data[i]);
      mix(column, data[i], key, next);
      key = next;
    }
  }
  return column;
}

/// The sums over a warp of both words: of the first in lane 0, of the second in lane 16. At most
/// 2^61 + 6 goes in, and comes out.
__device__ __forceinline__ Word sums_of_warp(const Word (&words)[passes]) {
  // Half the lanes go on with one word, half with the other.
  const bool second = threadIdx.x & 16;
  Word sum = (second ? words[1] : words[0]) +
             __shfl_xor_sync(whole_warp, second ? words[0] : words[1], 16);
  sum = fold(sum + __shfl_down_sync(whole_warp, sum, 8, 16));
  sum += __shfl_down_sync(whole_warp, sum, 4, 16);
  sum = fold(sum + __shfl_down_sync(whole_warp, sum, 2, 16));
  return fold(sum + __shfl_down_sync(whole_warp, sum, 1, 16));
}

/// Whether the thread has a word of the tile's digest when all is summed up, and which.
__device__ __forceinline__ bool has_word() { return threadIdx.x == 0 || threadIdx.x == 16; }
__device__ __forceinline__ unsigned which_word() { return threadIdx.x / 16; }

/// The word of the tile's digest that the thread has. `turn` alternates from call to call.
__device__ __forceinline__ Word sum_up(Shared& shared, unsigned turn, const Column& column) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Word terms[passes];
#pragma unroll
  for (unsigned j = 0; j < passes; ++j) {
    terms[j] = column_term(column.sums[j], shared.column_keys[2 * j][threadIdx.x],
                           shared.column_keys[2 * j + 1][threadIdx.x]);
  }
  const Word sum = sums_of_warp(terms);
  if (lane % 16 == 0) shared.sums[turn][lane / 16][warp] = sum;
  __syncthreads();
  if (warp != 0) return 0;
  Word parts[passes];
#pragma unroll
  for (unsigned j = 0; j < passes; ++j) {
    parts[j] = lane < blockDim.x / 32 ? shared.sums[turn][j][lane] : 0;
  }
  return reduce(sums_of_warp(parts));
}

__device__ __forceinline__ void keep(Word* digests, Word tile, Word word) {
  if (has_word()) digests[2 * tile + which_word()] = word;
}

/// The first vector of the thread's column in a tile.
__device__ __forceinline__ Word column_at(Word tile) {
  return tile * rows * blockDim.x + threadIdx.x;
}

template <bool copies>
__device__ __forceinline__ void digest_all(Vector* target, const Vector* source, Word* digests,
                                           Word tiles, Word key0, Word key1) {
  __shared__ Shared shared;
  make_keys(shared, key0, key1);
  unsigned turn = 0;
  for (Word tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const Word at = column_at(tile);
    const Column column = read_column<copies>(shared, target + at, source + at);
    keep(digests, tile, sum_up(shared, turn, column));
    turn ^= 1;
  }
}

/// Adds up the tiles that blocks have copied; the last block tells the host.
__device__ __forceinline__ void count_up(Word* counters, Word* dirty_out, Word dirty) {
  if (threadIdx.x != 0) return;
  auto* sums = reinterpret_cast<unsigned long long*>(counters);
  if (dirty != 0) atomicAdd(&sums[0], dirty);
  __threadfence();
  if (atomicAdd(&sums[1], 1ull) + 1 != gridDim.x) return;
  __threadfence();
  *reinterpret_cast<volatile unsigned long long*>(dirty_out) = atomicExch(&sums[0], 0ull);
  atomicExch(&sums[1], 0ull);
  __threadfence_system();
}

/// Copies the tiles that `differs` says, of all the block's threads at once, with new digests.
template <typename Differs>
__device__ __forceinline__ void settle_all(Shared& shared, Vector* target,
                                           const Vector* source, Word* digests, Word tiles,
                                           unsigned& turn, Word& dirty, Differs differs) {
  for (Word tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    if (!__syncthreads_or(differs(tile))) continue;
    const Word at = column_at(tile);
    // The new digest is kept, of what is stored now: with the old one, a tile that goes from A to B
    // and, over a gate that was given up, back to A would be taken for unchanged (I6).
    const Column column = read_column<true>(shared, target + at, source + at);
    const Word word = sum_up(shared, turn, column);
#ifndef VMART_PLANTED_OLD_DIGEST  // Only tests leave this out, to see that they would notice.
    keep(digests, tile, word);
#endif
    turn ^= 1;
    ++dirty;
  }
}

/// Whether the thread's column differs between the two.
__device__ __forceinline__ bool columns_differ(const Vector* target, const Vector* source) {
  Half difference = 0;
#pragma unroll 1
  for (unsigned row = 0; row < rows; row += depth / 2) {
    Vector ours[depth / 2], theirs[depth / 2];
#pragma unroll
    for (unsigned i = 0; i < depth / 2; ++i) {
      ours[i] = load_once(next_row(target));
      theirs[i] = load_once(next_row(source));
    }
#pragma unroll
    for (unsigned i = 0; i < depth / 2; ++i) {
#pragma unroll
      for (unsigned h = 0; h < vector_halves; ++h) {
        difference |= ours[i].halves[h] ^ theirs[i].halves[h];
      }
    }
  }
  return difference != 0;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(columns_max)
    vmart_live_copy_digest(Vector* target, const Vector* source, Word* digests, Word tiles,
                           Word key0, Word key1) {
  digest_all<true>(target, source, digests, tiles, key0, key1);
}

extern "C" __global__ void __launch_bounds__(columns_max)
    vmart_copy(Vector* target, const Vector* source, Word vectors) {
  const Word step = Word{gridDim.x} * blockDim.x;
  Word at = Word{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; at + (depth - 1) * step < vectors; at += depth * step) {
    Vector data[depth];
#pragma unroll
    for (unsigned i = 0; i < depth; ++i) data[i] = load_once(source + at + i * step);
#pragma unroll
    for (unsigned i = 0; i < depth; ++i) store(target + at + i * step, data[i]);
  }
  for (; at < vectors; at += step) store(target + at, load_once(source + at));
}

extern "C" __global__ void __launch_bounds__(columns_max)
    vmart_live_digest(const Vector* source, Word* digests, Word tiles, Word key0, Word key1) {
  digest_all<false>(nullptr, source, digests, tiles, key0, key1);
}

extern "C" __global__ void __launch_bounds__(columns_max)
    vmart_live_settle(Vector* target, const Vector* source, Word* digests, Word* counters,
                      Word* dirty_out, Word tiles, Word key0, Word key1) {
  __shared__ Shared shared;
  make_keys(shared, key0, key1);
  unsigned turn = 0;
  Word dirty = 0;
  settle_all(shared, target, source, digests, tiles, turn, dirty, [&](Word tile) {
    const Column column = read_column<false>(shared, nullptr, source + column_at(tile));
    const Word now = sum_up(shared, turn, column);
    turn ^= 1;
    return has_word() && now != digests[2 * tile + which_word()];
  });
  count_up(counters, dirty_out, dirty);
}

extern "C" __global__ void __launch_bounds__(columns_max)
    vmart_live_settle_paranoid(Vector* target, const Vector* source, Word* digests, Word* counters,
                               Word* dirty_out, Word tiles, Word key0, Word key1) {
  __shared__ Shared shared;
  make_keys(shared, key0, key1);
  unsigned turn = 0;
  Word dirty = 0;
  settle_all(shared, target, source, digests, tiles, turn, dirty, [&](Word tile) {
    const Word at = column_at(tile);
    return columns_differ(target + at, source + at);
  });
  count_up(counters, dirty_out, dirty);
}
