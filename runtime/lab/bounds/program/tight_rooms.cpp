#include "lab/bounds/program/tight_rooms.hpp"

#include <algorithm>

namespace vma {

TightRooms::TightRooms(const PlacementInstance& instance)
    : capacities_(instance.capacities),
      alive_(std::size_t{instance.blocks} + 1),
      ends_(std::size_t{instance.blocks} + 1),
      nexts_(instance.blocks, instance.blocks) {
  for (const PlacementChunk& chunk : instance.chunks) {
    const auto bytes = static_cast<double>(chunk.bytes);  // The sums are integers below 2^53, hence
                                                          // exact.
    alive_[std::min(chunk.begin, instance.blocks)] += bytes;
    alive_[std::min(chunk.end, instance.blocks)] -= bytes;
  }
  for (std::size_t block = 1; block < alive_.size(); ++block) alive_[block] += alive_[block - 1];
  for (std::uint32_t block = 0; block < instance.blocks; ++block) {
    bool any = false;
    for (std::size_t place = 0; place < capacities_.size(); ++place) any |= at(block, place);
    ends_[block + 1] = ends_[block] + (any ? 1 : 0);
  }
  std::uint32_t next = instance.blocks;
  for (std::uint32_t block = instance.blocks; block-- > 0;) {
    if (ends_[block + 1] > ends_[block]) next = block;
    nexts_[block] = next;
  }
}

std::size_t TightRooms::ends(const PlacementChunk& chunk) const {
  const std::size_t last = ends_.size() - 1;
  return ends_[std::min<std::size_t>(chunk.end, last)] -
         ends_[std::min<std::size_t>(chunk.begin, last)];
}

std::optional<std::uint32_t> TightRooms::next(std::uint32_t block) const {
  if (block >= nexts_.size() || nexts_[block] == nexts_.size()) return std::nullopt;
  return nexts_[block];
}

}  // namespace vma
