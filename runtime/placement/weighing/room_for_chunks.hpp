#pragma once

#include <vma/policy.hpp>
#include <vma/snapshot.hpp>

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace vma::inline v1 {

/// The bytes of chunk `i` of a request.
std::uint64_t chunk_bytes_of(const AllocRequest& request, std::size_t i);

/// What a policy has proposed at one point in time. All uses that are collected together come with
/// one snapshot, which does not show what was proposed at earlier ones.
class ProposalsOfNow {
 public:
  /// Called first in each call of a policy: the snapshot contains the proposals of earlier times.
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
  /// Bytes that are to go to a place.
  std::uint64_t bytes_to(PlaceId to) const {
    return index(to) < bytes_.size() ? bytes_[index(to)] : 0;
  }

 private:
  Time now_ = Time::min();
  std::set<ChunkId> chunks_;
  std::vector<std::uint64_t> bytes_;
};

/// What is still free at each place while chunks are placed there. Room that will only become free
/// later does not count.
class RoomForChunks {
 public:
  explicit RoomForChunks(const Snapshot& snapshot);
  RoomForChunks(const Snapshot& snapshot, const ProposalsOfNow& proposals);

  bool fits(PlaceId at, std::uint64_t bytes) const { return free_[index(at)] >= bytes; }
  /// Requires: the bytes fit there.
  void take(PlaceId at, std::uint64_t bytes) { free_[index(at)] -= bytes; }
  /// Takes `bytes` from the first place of `order` where they fit. None if there is no such place.
  std::optional<PlaceId> take_first(std::span<const PlaceId> order, std::uint64_t bytes);

 private:
  std::vector<std::uint64_t> free_;
};

/// First touch with spill: each chunk, by itself, goes to the HBM of the device that asks; if it
/// does not fit there, to the fastest other place of that device where it does, by
/// `MachineCosts::by_speed`: the machine determines whether that is a peer or the host. So a small
/// chunk may still find room where a larger one before it did not. If no place has room the default
/// applies, and the allocation fails as it would without a policy.
///
/// From: first-touch placement of Linux, whose allocator takes each page from the node of the CPU
/// that touches it and, when that is full, from the next one of that node's zone list, which is in
/// order of distance (`build_zonelists` in mm/page_alloc.c); and of MCM-GPU (Arunkumar et al., ISCA
/// 2017).
void first_touch(const AllocRequest& request, const Snapshot& snapshot, std::span<PlaceId> chunks);

/// How many more bytes a policy may propose to copy from one place to another: a share of
/// the route's rate, refilled as time passes, accumulating up to `burst`. A chunk may go while
/// anything is left, so that one larger than the budget can go, and leaves a debt.
class RouteBudget {
 public:
  RouteBudget(double share, double burst_seconds) : share_(share), burst_seconds_(burst_seconds) {}

  void refill(const MachineCosts& costs, Time now);
  /// Requires: `refill` was called.
  bool left(PlaceId from, PlaceId to) const { return bytes_[cell(from, to)] > 0; }
  void take(PlaceId from, PlaceId to, std::uint64_t bytes) {
    bytes_[cell(from, to)] -= static_cast<double>(bytes);
  }

 private:
  std::size_t cell(PlaceId from, PlaceId to) const { return index(from) * places_ + index(to); }

  const double share_, burst_seconds_;
  std::size_t places_ = 0;
  Time refilled_{0};
  std::vector<double> bytes_;
};

}  // namespace vma::inline v1
