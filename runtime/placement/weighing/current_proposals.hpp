#pragma once

#include <vma/snapshot.hpp>

#include <cstdint>
#include <set>
#include <vector>

namespace vma::inline v1 {

/// What a policy has wished for at one point of time. All uses of a drain come with one snapshot,
/// which does not show yet what was wished for at the first of them.
class WishesOfNow {
 public:
  /// Before anything else in a call: what was wished for earlier is in the snapshot by now.
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
  /// What goes to a place.
  std::uint64_t bytes_to(PlaceId to) const {
    return index(to) < bytes_.size() ? bytes_[index(to)] : 0;
  }

 private:
  Time now_ = Time::min();
  std::set<ChunkId> chunks_;
  std::vector<std::uint64_t> bytes_;
};

}  // namespace vma::inline v1
