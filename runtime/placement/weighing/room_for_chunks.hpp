#pragma once

#include "placement/weighing/current_proposals.hpp"

#include <vma/policy.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vma::inline v1 {

/// The bytes of chunk `i` of a request.
std::uint64_t chunk_bytes_of(const AllocRequest& request, std::size_t i);

/// What is still free at each place while chunks are placed there. Room that will only become free
/// later does not count.
class RoomForChunks {
 public:
  explicit RoomForChunks(const Snapshot& snapshot);
  RoomForChunks(const Snapshot& snapshot, const WishesOfNow& wishes);

  bool fits(PlaceId at, std::uint64_t bytes) const { return free_[index(at)] >= bytes; }
  /// Requires: the bytes fit there.
  void take(PlaceId at, std::uint64_t bytes) { free_[index(at)] -= bytes; }
  /// Takes `bytes` from the first place of `order` where they fit. None if there is no such place.
  std::optional<PlaceId> take_first(std::span<const PlaceId> order, std::uint64_t bytes);

 private:
  std::vector<std::uint64_t> free_;
};

}  // namespace vma::inline v1
