#pragma once

#include "placement/weighing/live_allocations.hpp"

#include <vma/policy.hpp>

#include <cstdint>
#include <vector>

namespace vma::inline v1 {

/// Where each chunk would lie under `static`: by first touch, in the order of the device that asked
/// for it, with room as it would be if no policy had ever moved anything. Memory that the program
/// places or moves itself lies where the program wants it, here too; so does what the planner
/// evicts to make room, since it does so under `static` as well.
class StaticShadow {
 public:
  /// The policy was asked to place the request; `chosen`: where its chunks are to be.
  void asked(const AllocRequest& request, std::span<const PlaceId> chosen,
             const Snapshot& snapshot);
  /// Takes in what is new in `Snapshot::changed`.
  void look(const Snapshot& snapshot);
  /// The same, and the list of changes starts anew.
  void end_tick(const Snapshot& snapshot);
  /// Requires: the chunk exists.
  PlaceId at(ChunkId chunk, const Snapshot& snapshot);
  /// The guarded policy has moved the chunk: `static` would not have.
  void moved_by_policy(const MoveResult& result);
  void gone(ChunkId chunk);

 private:
  struct Cell {
    std::uint64_t bytes = 0;  // 0: not seen.
    PlaceId at{};
    PlaceId really_at{};  // As far as is known: a difference is a move that no policy made.
  };
  void see_allocation(ChunkId chunk, const Snapshot& snapshot);
  PlaceId first_touch(PlaceId device, const ChunkRow& row, const Snapshot& snapshot) const;
  void put(Cell& cell, PlaceId at);

  LiveAllocations allocations_;
  std::vector<PlaceId> asked_by_;  // By number of the allocation.
  std::vector<Cell> cells_;
  std::vector<std::uint64_t> used_;  // By place.
  std::size_t changes_seen_ = 0;
};

}  // namespace vma::inline v1
