#pragma once

#include "lab/bounds/placement_instance.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace vma {

/// At the ends of which blocks which places could be too small: there all that lives would not fit.
/// Anywhere else capacities say nothing. Immutable.
class TightRooms {
 public:
  explicit TightRooms(const PlacementInstance& instance);

  bool at(std::uint32_t block, std::size_t place) const {
    return alive_[block] > static_cast<double>(capacities_[place]);
  }
  /// At how many ends of the chunk's life any place could be too small.
  std::size_t ends(const PlacementChunk& chunk) const;
  /// The first block not before `block` at whose end any place could be too small.
  std::optional<std::uint32_t> next(std::uint32_t block) const;

 private:
  std::vector<std::uint64_t> capacities_;
  std::vector<double> alive_;         // By block: bytes.
  std::vector<std::uint32_t> ends_;   // By block: how many there were before.
  std::vector<std::uint32_t> nexts_;  // By block.
};

}  // namespace vma
