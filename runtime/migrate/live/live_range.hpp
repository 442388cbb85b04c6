#pragma once

#include "migrate/copying/live_copier.hpp"
#include "migrate/gates/gate.hpp"
#include "migrate/live/ways.hpp"
#include "migrate/migration/migration_task.hpp"
#include "migrate/migration/move_account.hpp"
#include "migrate/migration/move_notices.hpp"
#include "migrate/migration/move_parts.hpp"
#include "migrate/migration/transaction.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace vma {

struct LiveRange;

/// One chunk of a live move, from its plan to its end. The thread of the move alone uses it.
struct LiveChunk {
  LiveChunk(Memory& memory, CopyEngine& engine, LiveRange& whole, std::size_t slot,
            std::size_t which);

  /// Its target was a clean copy; the slot may have been written to since, so the bytes must be
  /// copied.
  bool went_stale() const { return choice.way == Way::remapped && !transaction.target_clean(); }

  Transaction transaction;
  LiveRange& range;          ///< The migration that it belongs to.
  const std::size_t number;  ///< In the order of its migration.
  WayChoice choice;

  // --- The copy before the stop: `LiveStaging`.
  LiveCopier* copier = nullptr;  ///< While this chunk occupies its bay.
  std::size_t bay = 0;
  bool staged = false;
  /// By a copy engine, which has not begun: it would keep other chunks from being mapped.
  bool copy_waits = false;
  TimePoint staged_at{0};
  /// The writable epoch of the allocation when the copy began, if it was read-only then.
  std::optional<std::uint64_t> read_only_since;
  /// It moves stopped instead of this way, because there was no memory for digests.
  std::optional<Way> lacked_digests;

  // --- The last try to stop for it: `BatchStop`.
  /// What was written since the copy is settled in this try.
  bool settles = false;

  // --- What the watchers have been told: `LiveRange`.
  std::optional<TimePoint> begun;
  std::chrono::nanoseconds stall{0};  ///< Its share of the stalls of its gates.
  bool ended = false;

  StallForecast::Fill fill() const noexcept {
    using Fill = StallForecast::Fill;
    if (settles) return Fill::settle;
    return choice.way == Way::stopped ? Fill::copy : Fill::none;
  }
  bool switched() const noexcept { return transaction.state() == Transaction::State::switched; }
  /// It can no longer move: its switch failed, or work of the runtime on it does not end.
  bool broken() const noexcept { return transaction.state() >= Transaction::State::stayed; }
};

/// One migration of a live move: its chunks, what its hooks and watchers were told, and what it
/// reports. Only the thread of the move uses it.
struct LiveRange {
  LiveRange(const MoveParts& parts, std::shared_ptr<MigrationTask> task);

  /// Names the chunks to move. Throws: Error if a user of the memory would not reach the target.
  void plan();
  /// Throws: Error{pinned, poisoned, dropped}.
  void require_movable() const;
  /// It was cancelled, or its memory is being freed.
  bool unwanted() const noexcept { return task->cancelled() || allocation.being_freed; }
  /// Null once all have switched.
  LiveChunk* first_left() noexcept;

  // --- What has happened.
  /// Memory is allocated for the chunk from now on. Once for each chunk; later calls do nothing.
  void begun(LiveChunk& chunk) noexcept;
  /// Everything was stopped for chunks of this migration, which switched or not.
  void stood(StopKind kind, const GateTimes& times) noexcept;
  /// Tells the watchers of that stop. Once for each: its batch may have chunks of several
  /// migrations.
  void tell_stood(const LiveChunk& first, const GateTimes& times, std::size_t streams) noexcept;
  void gave_up(StopRefusal why) noexcept;
  /// The chunk is at its target, by a live copy if `copied_twice` says how many bytes of it had to
  /// be copied again.
  void moved(LiveChunk& chunk, std::optional<std::uint64_t> copied_twice) noexcept;
  /// The error that ends the migration.
  void failed(const LiveChunk& chunk, const std::exception& error) noexcept;
  /// It has ended: tells the watchers of chunks that were begun and have stayed, and logs how long
  /// its phases took.
  void finish() noexcept;

  const MoveParts& parts;
  const std::shared_ptr<MigrationTask> task;
  Allocation& allocation;  // The task keeps it until it has ended.
  const TimePoint since;
  MigrationReport report;  // Right at any time, whatever is thrown.
  StopStats stops;
  MoveNotices notices;
  MemoryPressure::Want want;  // Its need for room.
  std::optional<TimePoint> pinned_since;
  std::deque<LiveChunk> chunks;  // In order of their slots.
  std::size_t switched = 0;      // All chunks before this one have switched.

 private:
  ChunkStep step_of(const LiveChunk& chunk, ChunkStep::Kind kind) const noexcept;
  void count(std::string_view reason) noexcept;
  void log_phases() const;
};

/// Chunks that share their gates, of one migration or of several: all are staged, then one gate
/// after the other is closed for them until at least one chunk has switched. Chunks that were left
/// join another batch. All move in the same way; they may leave different GPUs.
struct LiveBatch {
  std::vector<LiveChunk*> chunks;  ///< In the order in which they switch.

  // --- `MoveConditions`.
  TimePoint first_try{0};
  TimePoint deadline{0};  ///< For all tries.
  int tries = 0;          ///< Tries that were given up, except those that only waited.
  int waits = 0;          ///< Tries in which no stream got through its backlog, or its capture.
                          ///< Each waits for longer.
  int yields = 0;         ///< Tries that were given up since streams were attached or detached.
  /// For the next try: from the first arrival to the last, and from there to the first switch.
  std::chrono::nanoseconds gate_limit{0};
  /// In a try the watchdog opened the gate before it was closed, while a stream stood.
  bool blocked = false;
  /// In the last try no stream arrived in time, for whatever reason.
  bool overdue = false;

  LiveChunk& front() const { return *chunks.front(); }
  /// The first one that can no longer move. Null if there is none.
  const LiveChunk* broken() const {
    const auto found = std::ranges::find_if(chunks, &LiveChunk::broken);
    return found == chunks.end() ? nullptr : *found;
  }
  /// The migration ends.
  void leave_out(const LiveRange& range) {
    std::erase_if(chunks, [&](const LiveChunk* chunk) { return &chunk->range == &range; });
  }
  Way way() const { return front().choice.way; }
  StopKind stop() const { return front().choice.stop; }
  CopyUnder copies_under() const {
    return stop() == StopKind::gate ? CopyUnder::gate : CopyUnder::hold;
  }
  /// How long the next try keeps others waiting who need the turn to stop work. It grows, so that
  /// any backlog can be waited for.
  std::chrono::nanoseconds turn_limit() const noexcept {
    constexpr int doublings_max = 10;
    return turn_limit_min * (1 << std::min(waits, doublings_max));
  }
  static constexpr std::chrono::seconds turn_limit_min{2};
};

/// Calls `body` for the migration of each chunk, once each. Requires: chunks of one migration are
/// neighbours.
template <typename Body>
void for_each_range(const LiveBatch& batch, Body&& body) {
  const LiveRange* last = nullptr;
  for (LiveChunk* const chunk : batch.chunks) {
    if (&chunk->range == last) continue;
    last = &chunk->range;
    body(chunk->range);
  }
}

/// Calls `body` for the account of each group that has migrations in the batch, once each.
template <typename Body>
void for_each_group(const LiveBatch& batch, Body&& body) {
  for_each_range(batch, [&](LiveRange& range) {
    GroupAccount* const group = range.task->group.get();
    if (group == nullptr) return;
    const auto first = std::ranges::find_if(batch.chunks, [&](const LiveChunk* chunk) {
      return chunk->range.task->group.get() == group;
    });
    if (&(*first)->range == &range) body(*group);
  });
}

}  // namespace vma
