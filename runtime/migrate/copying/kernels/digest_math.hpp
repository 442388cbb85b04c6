#pragma once

#include <cstdint>

// The kernels are compiled by nvcc, the host bodies by the compiler of the library.
#if defined(__CUDACC__)
#define VMART_BOTH_SIDES __host__ __device__ __forceinline__
#else
#define VMART_BOTH_SIDES inline
#endif

/// The arithmetic of a tile's digest, the same for GPUs and for simulated machines, bit for bit.
/// `docs/internals/digests.md` says what it is and how seldom it misses a change. C++17, as nvcc is
/// asked for.
namespace vma::digest_math {

using Word = std::uint64_t;
using Half = std::uint32_t;

constexpr unsigned rows = 16;          // Of 16-byte vectors in a column.
constexpr unsigned vector_halves = 4;  // 32-bit words of a vector.
constexpr unsigned passes = 2;         // Words of a digest.
constexpr unsigned column_keys = 2 * passes;
/// Vectors of keys: one a row, and one more because the second pass uses those of the row below.
constexpr unsigned row_keys = rows + passes - 1;
constexpr unsigned columns_max = 1024;  // Threads of a block.
constexpr Word prime = (Word{1} << 61) - 1;

struct alignas(16) Vector {
  Half halves[vector_halves];
};

/// What a thread has of its column: the two NH sums.
struct Column {
  Word sums[passes] = {};
};

/// The odd steps and the mixing of splitmix64: a bijection of 64-bit words.
VMART_BOTH_SIDES Word splitmix(Word word) {
  word ^= word >> 30;
  word *= 0xBF58476D1CE4E5B9u;
  word ^= word >> 27;
  word *= 0x94D049BB133111EBu;
  return word ^ word >> 31;
}

/// Word number `index` of the stream of a key: splitmix64 in counter mode, keyed at both ends.
VMART_BOTH_SIDES Word stream_word(Word key0, Word key1, Word index) {
  return splitmix(key1 ^ splitmix(key0 + (index + 1) * 0x9E3779B97F4A7C15u));
}

/// Keys of the row, the same for all columns.
VMART_BOTH_SIDES Vector row_key(Word key0, Word key1, unsigned row) {
  const Word low = stream_word(key0, key1, 2 * row);
  const Word high = stream_word(key0, key1, 2 * row + 1);
  return {{static_cast<Half>(low), static_cast<Half>(low >> 32), static_cast<Half>(high),
           static_cast<Half>(high >> 32)}};
}

/// A number below 2^61: key `number` of those of the column.
VMART_BOTH_SIDES Word column_key(Word key0, Word key1, unsigned column, unsigned number) {
  constexpr Word first = 2 * row_keys;
  return stream_word(key0, key1, first + Word{column} * column_keys + number) >> 3;
}

VMART_BOTH_SIDES Word product(Half a, Half b) {
  return static_cast<Word>(a) * b;
}

/// Takes a row's vector into the column: NH with the keys of the row, and with those of the next.
VMART_BOTH_SIDES void mix(Column& column, const Vector& data, const Vector& key,
                          const Vector& next_key) {
  const Half* m = data.halves;
  const Half* k = key.halves;
  const Half* n = next_key.halves;
  column.sums[0] += product(m[0] + k[0], m[1] + k[1]);
  column.sums[0] += product(m[2] + k[2], m[3] + k[3]);
  column.sums[1] += product(m[0] + n[0], m[1] + n[1]);
  column.sums[1] += product(m[2] + n[2], m[3] + n[3]);
}

/// The same number modulo the prime, at most 2^61 + 6.
VMART_BOTH_SIDES Word fold(Word number) {
  return (number & prime) + (number >> 61);
}

/// The one representative below the prime.
VMART_BOTH_SIDES Word reduce(Word number) {
  const Word folded = fold(number);
  return folded >= prime ? folded - prime : folded;
}

/// a * low half + b * high half of the sum, modulo the prime; at most 2^61 + 6. Keys are cut into
/// 31 and 30 bits, so that no sum of two products passes 64 bits.
VMART_BOTH_SIDES Word column_term(Word sum, Word a, Word b) {
  constexpr Half low_31 = 0x7FFFFFFFu;
  const Half low = static_cast<Half>(sum);
  const Half high = static_cast<Half>(sum >> 32);
  const Word lower =
      product(static_cast<Half>(a) & low_31, low) + product(static_cast<Half>(b) & low_31, high);
  const Word upper =
      product(static_cast<Half>(a >> 31), low) + product(static_cast<Half>(b >> 31), high);
  // upper * 2^31: its bits from 30 on leave at the top of 61 bits and come back at the bottom.
  const Word turned = ((upper & ((Word{1} << 30) - 1)) << 31) + (upper >> 30);
  return fold(fold(lower) + turned);
}

}  // namespace vma::digest_math
