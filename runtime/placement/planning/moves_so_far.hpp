#pragma once

#include "placement/planning/planned_move.hpp"
#include "placement/planning/planner_limits.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vma {

/// Which chunk moved when, as far back as the planner's rule against thrashing looks.
class MoveHistory {
 public:
  /// If there is no memory for it, the move is forgotten.
  void moved(ChunkId chunk, Time now, const PlannerLimits& limits) noexcept;
  void forget(ChunkId chunk) { chunks_.erase(chunk); }

  /// Until when the chunk is kept in place because it moved to and fro; 0 if it did not.
  Time held_until(ChunkId chunk) const;
  /// Number of its moves within the window.
  std::uint32_t recent_moves(ChunkId chunk, Time now, const PlannerLimits& limits) const;
  /// Number of chunks with a history. Bounded by the moves of the last window and pin.
  std::size_t size() const noexcept { return chunks_.size(); }

 private:
  struct Past {
    std::deque<Time> moves;  // Within the window before the last move.
    Time held_until{0};
  };
  void drop_old(Time now, const PlannerLimits& limits);

  std::unordered_map<ChunkId, Past> chunks_;
  std::size_t dropped_at_ = 64;  // Old ones are looked for at this size.
};

/// A part of the room that a chunk leaves behind when its move has ended.
struct RoomClaim {
  MoveNumber from{};
  std::uint64_t bytes = 0;
};

/// The planner's record of accepted moves that have not ended, and of the room reserved for them.
///
/// A move's room is `bytes` at its target. A part of it is free when the move is accepted and is
/// reserved from then on (`reserved`); the rest is claimed from moves that leave the target, and is
/// reserved as these end. When the move starts, `PlaceState::used_bytes` counts its bytes, and
/// nothing is reserved here any more. So at each moment used and reserved bytes are within the
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
    std::vector<MoveNumber> waits_for;   ///< Not ended; the moves of its claims, and a first leg.
    std::vector<MoveNumber> dependents;  ///< Moves that wait for this one.
  };

  /// Reserves `reserved` bytes of the target's free room for the move; negative if that place is
  /// over its capacity, which claims make up for. Throws: std::bad_alloc; then nothing has changed.
  void accept(const AcceptedMove& move, std::int64_t reserved, std::vector<RoomClaim> claims);
  /// Undoes `accept`; does nothing if it was not accepted. Requires: no move waits for it.
  void withdraw(MoveNumber number) noexcept;
  bool may_start(MoveNumber number) const;
  /// Requires: it may start, and `used_bytes` of its target counts it.
  void started(MoveNumber number);
  using Ended = std::vector<std::pair<MoveNumber, Entry>>;
  /// Adds to `over` the move itself, and the moves dropped because they wait for it and it failed.
  /// Requires: it is in progress, and `used_bytes` reflects the outcome; `over` has room for
  /// `size()` more, or for one if it moved.
  void ended(MoveNumber number, bool moved, Ended& over) noexcept;

  bool is_moving(ChunkId chunk) const { return moves_of_.contains(chunk); }
  bool contains(MoveNumber number) const { return moves_.contains(number); }
  const Entry& entry(MoveNumber number) const { return moves_.at(number); }
  /// For a chunk that goes through a third place, the first leg comes first.
  std::vector<MoveNumber> moves_of(ChunkId chunk) const;
  /// Bytes of a place that are free but reserved.
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
