#pragma once

#include "lab/bounds/placement_instance.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace vma {

/// At the ends of which blocks which places could overflow: all live chunks together would not fit
/// there. Elsewhere capacities have no effect. Immutable.
class TightRooms {
 public:
  explicit TightRooms(const PlacementInstance& instance);

  bool at(std::uint32_t block, std::size_t place) const {
    return alive_[block] > static_cast<double>(capacities_[place]);
  }
  /// At how many block ends in the chunk's life any place could overflow.
  std::size_t ends(const PlacementChunk& chunk) const;
  /// The first block from `block` on at whose end any place could overflow.
  std::optional<std::uint32_t> next(std::uint32_t block) const;

 private:
  std::vector<std::uint64_t> capacities_;
  std::vector<double> alive_;         // By block: bytes.
  std::vector<std::uint32_t> ends_;   // By block: how many there were before.
  std::vector<std::uint32_t> nexts_;  // By block.
};

}  // namespace vma
