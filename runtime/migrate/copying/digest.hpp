#pragma once

#include "base/ids.hpp"

#include <vma/device.hpp>

#include <cstdint>

namespace vma {

/// What a digest depends on besides the bytes: drawn anew for each copy of a chunk, so that nobody
/// can prepare data whose change a digest misses. `docs/internals/digests.md` has the odds.
struct DigestKey {
  std::uint64_t words[2] = {};

  /// From the system's source of randomness.
  static DigestKey random();
};

/// A chunk cut into tiles, each of which has a digest. A block of threads works on a tile, a thread
/// on one column of it.
struct Tiling {
  std::uint64_t tile_bytes = 0;
  std::uint64_t tiles = 0;

  /// Requires: tiles of a multiple of 256 bytes, at most 256 KiB; whole tiles make up the chunk. On
  /// GPUs a multiple of 8 KiB: their warps are whole.
  static Tiling of(std::uint64_t chunk_bytes, std::uint64_t tile_bytes);
  /// Threads of a block.
  unsigned columns() const;
};

constexpr std::uint64_t digest_bytes = 16;  ///< Of one tile: two words in device memory.

// The kernels. All work with any grid; blocks take tiles in turn. Their names start with
// `vmart_live_`: they read memory that the application may be writing to, on purpose. Whatever
// comes in between, a digest that they store is that of the bytes which they stored, or, where they
// store none, of the bytes which they read (I6).

/// Copies every tile and stores its digest.
const Kernel& copy_digest_kernel();
/// Stores the digest of every tile.
const Kernel& digest_kernel();
/// Copies again, with new digests, the tiles of the source that do not have the stored digest.
const Kernel& settle_kernel();
/// The same for the tiles whose bytes in source and target differ; stored digests are not trusted.
const Kernel& paranoid_settle_kernel();

KernelArguments copy_digest_arguments(Address target, Address source, Address digests,
                                      const Tiling& tiling, const DigestKey& key);
KernelArguments digest_arguments(Address source, Address digests, const Tiling& tiling,
                                 const DigestKey& key);
/// Of both settling kernels. `counters`: two words of device memory, zero when the kernel starts
/// and when it has ended. `dirty_out`: a word of pinned memory that gets the number of tiles
/// copied.
KernelArguments settle_arguments(Address target, Address source, Address digests, Address counters,
                                 Address dirty_out, const Tiling& tiling, const DigestKey& key);

/// `blocks`, or as many as there are tiles if those are fewer.
LaunchShape tile_shape(const Tiling& tiling, unsigned blocks);

}  // namespace vma
