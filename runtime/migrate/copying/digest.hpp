#pragma once

#include "base/ids.hpp"
#include "migrate/copying/kernels/digest_math.hpp"

#include <vma/device.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// What a digest depends on besides the bytes: drawn anew for each copy of a chunk, so that no
/// program can prepare data whose change a digest misses. `runtime/migrate/copying/README.md`
/// states the probabilities.
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

  /// Requires: tiles are a multiple of 256 bytes and at most 256 KiB; the chunk consists of whole
  /// tiles. On GPUs tiles are a multiple of 8 KiB, so that warps are full.
  static Tiling of(std::uint64_t chunk_bytes, std::uint64_t tile_bytes);
  /// Threads in a block.
  unsigned columns() const;
};

constexpr std::uint64_t digest_bytes = 16;  ///< Per tile: two words in device memory.

// The kernels. All work with any grid; blocks take tiles in turn. The names of those that
// intentionally read memory that the application may be writing to start with `vmart_live_`.
// Whatever is written meanwhile, a digest that they store matches the bytes that they stored or, if
// they store none, the bytes that they read (I6).

/// Copies every tile and stores its digest.
const Kernel& copy_digest_kernel();
/// Copies, and stores no digest: for memory that nothing writes to.
const Kernel& copy_kernel();
/// Stores the digest of every tile.
const Kernel& digest_kernel();
/// Copies again, with new digests, the tiles of the source that do not have the stored digest.
const Kernel& settle_kernel();
/// Like `settle_kernel`, but for the tiles whose bytes in source and target differ; stored digests
/// are not trusted.
const Kernel& paranoid_settle_kernel();

/// All of these kernels, compiled; see `Driver::load_kernels`.
std::span<const std::uint64_t> digest_kernels_image();

KernelArguments copy_digest_arguments(Address target, Address source, Address digests,
                                      const Tiling& tiling, const DigestKey& key);
/// `size_bytes` is a multiple of 16.
KernelArguments copy_arguments(Address target, Address source, std::uint64_t size_bytes);
KernelArguments digest_arguments(Address source, Address digests, const Tiling& tiling,
                                 const DigestKey& key);
/// For both settling kernels. `counters`: two words of device memory, zero when the kernel starts
/// and when it has ended. `dirty_out`: a word of pinned memory that receives the number of tiles
/// copied.
KernelArguments settle_arguments(Address target, Address source, Address digests, Address counters,
                                 Address dirty_out, const Tiling& tiling, const DigestKey& key);

/// `blocks`, or the number of tiles if that is smaller.
LaunchShape tile_shape(const Tiling& tiling, unsigned blocks);
/// Of the copy without digests, on a GPU that has nothing else to do.
LaunchShape copy_shape(int multiprocessors);

/// Digests one tile after another on the CPU, with the same results as the kernels. Takes in a tile
/// from its first byte to its last, in pieces. Not thread-safe.
class TileHash {
 public:
  using Digest = std::array<std::uint64_t, 2>;

  TileHash(const DigestKey& key, unsigned columns);

  std::uint64_t tile_bytes() const { return row_bytes() * digest_math::rows; }

  /// Requires: whole vectors of 16 bytes, no more than remain of the tile.
  void mix(std::span<const std::byte> bytes);
  /// Returns the digest of the tile and begins the next one. Requires: the whole tile was taken in.
  Digest finish();

 private:
  std::uint64_t row_bytes() const { return columns_.size() * sizeof(digest_math::Vector); }

  std::array<digest_math::Vector, digest_math::row_keys> row_keys_;
  std::vector<std::uint64_t> column_keys_;
  std::vector<digest_math::Column> columns_;
  std::uint64_t taken_bytes_ = 0;
};

}  // namespace vma
