#pragma once

#include "placement/planning/planned_move.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vma {

/// A part of the room that a chunk leaves behind when its move has ended.
struct RoomClaim {
  MoveNumber from{};
  std::uint64_t bytes = 0;
};

/// The planner's book of what was accepted and has not ended, and of the room that it keeps.
///
/// A move's room is `bytes` at its target. A part of it is free when the move is accepted and is
/// kept from then on (`reserved`); the rest is claimed from moves that leave the target, and is
/// kept as these end. When the move starts, `PlaceState::used_bytes` counts its bytes, and nothing
/// is kept here any more. So at each moment what is used and what is reserved are within the
/// capacity.
class MovesUnderWay {
 public:
  struct Entry {
    ChunkId chunk{};
    PlaceId from{}, to{};
    std::uint64_t bytes = 0;
    bool started = false;
    AcceptedMove::Leg leg = AcceptedMove::Leg::direct;
    std::int64_t reserved = 0;
    std::vector<RoomClaim> claims;       ///< On moves that have not ended.
    std::vector<MoveNumber> waits_for;   ///< Not ended; these claims' moves, and a first leg.
    std::vector<MoveNumber> dependents;  ///< That wait for this one.
  };

  /// `reserved` bytes of the target's free room are the move's from now; below 0 if that place is
  /// over its capacity, and claims make up for it. Throws: std::bad_alloc; then nothing changed.
  void accept(const AcceptedMove& move, std::int64_t reserved, std::vector<RoomClaim> claims);
  /// As if it had never been accepted; nothing if it was not. Requires: no move waits for it.
  void withdraw(MoveNumber number) noexcept;
  bool may_start(MoveNumber number) const;
  /// Requires: it may start, and `used_bytes` of its target counts it.
  void started(MoveNumber number);
  /// Requires: it is under way, and `used_bytes` says what came of it. Returns what it was, and
  /// those that wait for it and are not made because it failed: they are under way no more.
  std::vector<std::pair<MoveNumber, Entry>> ended(MoveNumber number, bool moved);

  bool is_moving(ChunkId chunk) const { return moves_of_.contains(chunk); }
  bool contains(MoveNumber number) const { return moves_.contains(number); }
  const Entry& entry(MoveNumber number) const { return moves_.at(number); }
  /// Of a chunk that goes over a third place, the leg that comes first.
  std::vector<MoveNumber> moves_of(ChunkId chunk) const;
  /// Bytes of a place that are free and spoken for.
  std::int64_t reserved(PlaceId at) const;
  std::size_t size() const noexcept { return moves_.size(); }

 private:
  Entry remove(MoveNumber number);
  void reserve(PlaceId at, std::int64_t bytes);

  std::unordered_map<MoveNumber, Entry> moves_;
  std::unordered_multimap<ChunkId, MoveNumber> moves_of_;
  std::vector<std::int64_t> reserved_;  // By place.
};

}  // namespace vma
