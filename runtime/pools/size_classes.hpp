#pragma once

#include <cstddef>
#include <cstdint>

namespace vma {

/// Sizes of blocks and the bins for them: multiples of 256 bytes up to 4 KiB, then 16 sizes for
/// each power of two up to 1 MiB, then multiples of 64 KiB. So a block larger than 4 KiB exceeds
/// what was asked by at most 1/16, and by 3 % on average over all sizes.
///
/// The bins go on with 16 for each power of two. A bin has the blocks that are at least as large as
/// its class and smaller than the next, which are all equal up to 1 MiB unless blocks were split.
class SizeClasses {
 public:
  static constexpr std::uint64_t step_bytes = 256;             ///< The alignment of every block.
  static constexpr std::uint64_t small_bytes_max = 16 * 1024;  ///< Larger ones are in no slab.
  static constexpr std::size_t bins = 16 + 34 * 16;            ///< Up to 64 TiB.

  /// The size of a block for a request. Requires: 0 < `bytes` <= 2^45.
  static std::uint64_t rounded(std::uint64_t bytes) noexcept;
  /// The bin of the largest class that is not larger. Requires: at least `step_bytes`.
  static std::size_t bin_of(std::uint64_t size_bytes) noexcept;
  /// How many blocks a slab has. Requires: a rounded size of at most `small_bytes_max`.
  static std::uint64_t blocks_of_slab(std::uint64_t size_bytes) noexcept;
};

}  // namespace vma
