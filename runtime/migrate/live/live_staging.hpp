#pragma once

#include "migrate/copying/live_copiers.hpp"
#include "migrate/live/live_ranges.hpp"
#include "migrate/live/move_conditions.hpp"
#include "migrate/live/ways.hpp"
#include "migrate/migration/migration_parts.hpp"

#include <cstdint>
#include <functional>
#include <optional>

namespace vma {

/// Makes the chunks of a live move ready for their stops, beside the application: chooses the way
/// of each, takes target memory, and starts the live copies. Owns the leases of the copiers whose
/// bays the staged chunks occupy, one for each GPU that chunks leave.
///
/// Only the thread of the move calls it, which has the move claims. Nothing is stopped then, so
/// that hooks may be called and room may be asked for.
class LiveStaging {
 public:
  /// The options of the first migration that batches depend on hold for all of the move.
  LiveStaging(MigrationParts& parts, LiveRanges& ranges, const MoveConditions& conditions);
  /// Requires: no chunk is staged.
  ~LiveStaging() = default;
  LiveStaging(const LiveStaging&) = delete;
  LiveStaging& operator=(const LiveStaging&) = delete;

  /// Takes the target memory of all chunks of the first migration, which is alone. Throws:
  /// Error{out_of_memory}.
  void reserve_all(LiveRange& range);
  /// The next chunks to stop for, staged: `first` and those that follow it, as long as they move in
  /// the same way and are predicted to move within one stop. Migrations that wait join for it.
  /// Throws: Error that concerns `first`; for the others it recurs when they are the first. Blocks:
  /// for room, for the copier, and for the copy budget.
  LiveBatch make_batch(LiveChunk& first);
  /// Stages chunks that follow the batch, for the stops after its own. Blocks: for some
  /// milliseconds, to allocate their targets.
  void stage_ahead(const LiveBatch& batch);
  /// Streams may have been attached or detached since the way of the batch was chosen, so it may no
  /// longer work. If another is chosen, the batch keeps only its first chunk.
  void choose_again(LiveBatch& batch);
  /// Blocks: until the live copy of the chunk has ended. Throws: what it failed with.
  void await_copy(LiveChunk& chunk);
  /// The migration ends: waits for the work started for its chunks.
  void unstage(LiveRange& range) noexcept;
  /// After a try in which the chunk did not switch: waits for the work started for it before
  /// anything else is done with the chunk (I6).
  void end_try(LiveChunk& chunk) noexcept;
  /// How the next chunks move.
  WayChooser& ways() noexcept { return ways_; }
  /// The chunk has switched and leaves its bay. Returns how many of its bytes were copied twice;
  /// none if it did not go live.
  std::optional<std::uint64_t> retire(LiveChunk& chunk) noexcept;
  /// If the chunk moved stopped because there was no memory for digests, allocates them from the
  /// memory that it has left.
  void keep_room_for_digests(const LiveChunk& chunk) noexcept;
  /// Whether one gate may serve both.
  bool same_streams(const LiveChunk& first, const LiveRange& other) const;
  /// How long a stop of this move may take.
  std::chrono::nanoseconds max_stall() const noexcept { return max_stall_; }
  /// Whether this move has leased the copier of the chunk.
  bool leased(const LiveChunk& chunk) const noexcept { return leases_.has(chunk.copier); }

 private:
  /// How long the staging of one chunk may take: `now`, what it takes without waiting; `patient`,
  /// until there is room and the copier is free.
  enum class Effort { now, patient };

  void stage(LiveChunk& chunk);
  WayChoice choose(const LiveChunk& chunk) const;
  std::chrono::nanoseconds planned_stall(const WayChoice& choice) const;
  bool may_stage_ahead(const LiveChunk& first) const;
  bool may_stage_far_ahead(const LiveChunk& chunk) const;
  bool stage_beside(const LiveChunk& first, LiveChunk& next);
  std::chrono::nanoseconds stall_of_next(const LiveChunk& first, const LiveChunk& next) const;
  void prepare_copies(const LiveBatch& batch) const;
  void begin(LiveChunk& chunk, const WayChoice& choice, Effort effort);
  void begin_live(LiveChunk& chunk, Effort effort);
  void take_target(LiveChunk& chunk, Effort effort);
  LiveCopier* digester_of(const LiveChunk& chunk);
  void start_copies(const LiveBatch& batch);
  void start_copy(LiveChunk& chunk);
  bool start_by_engine(LiveChunk& chunk, LiveCopier& there);
  LiveCopier& lease_copier(const LiveChunk& chunk, Effort effort);
  void unstage(LiveChunk& chunk) noexcept;
  void unstage_all() noexcept;
  bool ends_in_time(const LiveChunk& chunk, const std::function<bool(TimePoint)>& ended_by) const;
  void pace_copy(const LiveChunk& chunk);

  MigrationParts& parts_;
  Memory& memory_;
  Clock& clock_;
  LiveRanges& ranges_;
  const MoveConditions& conditions_;
  WayChooser ways_;
  CopierLeases leases_;
  const int copy_share_percent_;
  const std::chrono::nanoseconds max_stall_;
  double copy_ns_per_byte_ = 1.0 / 300;  // Of a live copy: a guess, until one was measured.
};

}  // namespace vma
