#pragma once

#include <vma/snapshot.hpp>

#include <cstdint>
#include <set>
#include <vector>

namespace vma::inline v1 {

/// What a policy has wished for at one point in time. All uses of a drain come with one snapshot,
/// which does not show what was wished for at earlier uses of that drain.
class WishesOfNow {
 public:
  /// Called first in each call of a policy: the snapshot contains the wishes of earlier times.
  void look(Time now) {
    if (now == now_) return;
    now_ = now;
    chunks_.clear();
    bytes_.clear();
  }
  void add(ChunkId chunk, PlaceId to, std::uint64_t bytes) {
    chunks_.insert(chunk);
    if (index(to) >= bytes_.size()) bytes_.resize(index(to) + 1);
    bytes_[index(to)] += bytes;
  }
  bool has(ChunkId chunk) const { return chunks_.contains(chunk); }
  /// Bytes wished for at a place.
  std::uint64_t bytes_to(PlaceId to) const {
    return index(to) < bytes_.size() ? bytes_[index(to)] : 0;
  }

 private:
  Time now_ = Time::min();
  std::set<ChunkId> chunks_;
  std::vector<std::uint64_t> bytes_;
};

}  // namespace vma::inline v1
