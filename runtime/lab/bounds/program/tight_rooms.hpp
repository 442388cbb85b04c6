#pragma once

#include "lab/bounds/placement_instance.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace vma {

/// The places that could overflow at the end of each block: all live chunks together would not fit
/// there. Elsewhere capacities have no effect. Immutable.
class TightRooms {
 public:
  explicit TightRooms(const PlacementInstance& instance);

  bool at(std::uint32_t block, std::size_t place) const {
    return alive_[block] > static_cast<double>(capacities_[place]);
  }
  /// Number of block ends in the chunk's life at which any place could overflow.
  std::size_t ends(const PlacementChunk& chunk) const;
  /// The first block, from `block` on, at whose end any place could overflow.
  std::optional<std::uint32_t> next(std::uint32_t block) const;

 private:
  std::vector<std::uint64_t> capacities_;
  std::vector<double> alive_;         // Per block: bytes of live chunks.
  std::vector<std::uint32_t> ends_;   // Per block: number of earlier block ends at which a place
                                      // could overflow.
  std::vector<std::uint32_t> nexts_;  // Per block: the result of `next`.
};

}  // namespace vma
