#pragma once

#include "migrate/copying/digest.hpp"
#include "migrate/copying/kernels/digest_math.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

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
