#pragma once

#include "migrate/copying/live_copier.hpp"
#include "migrate/gates/gate.hpp"
#include "migrate/live/ways.hpp"
#include "migrate/migration/migration_task.hpp"
#include "migrate/migration/move_account.hpp"
#include "migrate/migration/move_observers.hpp"
#include "migrate/migration/migration_parts.hpp"
#include "migrate/migration/transaction.hpp"

#include <vma/migration.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <list>
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
  /// Maps the source for its copy. Throws: as `Transaction::prepare_source`. Blocks: while another
  /// move has the turn for slow calls. Requires: the caller does not hold `operations()`.
  void prepare_source(ChunkStore& chunks);

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
  LiveRange(MigrationParts& parts, std::shared_ptr<MigrationTask> task);

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
  void stopped(StopKind kind, const GateTimes& times) noexcept;
  /// Tells the watchers of that stop. Once for each: its batch may have chunks of several
  /// migrations.
  void tell_stopped(const LiveChunk& first, const GateTimes& times, std::size_t streams) noexcept;
  void gave_up(StopRefusal::Why why) noexcept;
  /// The chunk is at its target, by a live copy if `copied_twice` says how many bytes of it had to
  /// be copied again.
  void moved(LiveChunk& chunk, std::optional<std::uint64_t> copied_twice) noexcept;
  /// The error that ends the migration.
  void failed(const LiveChunk& chunk, const std::exception& error) noexcept;
  /// It has ended: tells the watchers of chunks that were begun and have stayed, and logs how long
  /// its phases took.
  void finish() noexcept;

  MigrationParts& parts;
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
  /// In a try the watchdog opened the gate before it was closed, while a stream stopped.
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

/// Where a live move gets further migrations from, and where it hands in those that have ended.
class LiveTasks {
 public:
  virtual ~LiveTasks() = default;
  /// A waiting migration that may share gates with `first`, the one that the move began with. The
  /// move has its allocation's claim from now on. Null if there is none.
  virtual std::shared_ptr<MigrationTask> take_beside(const MigrationTask& first) noexcept = 0;
  /// The move takes no more: others may carry out at once what waited to join it.
  virtual void lead_no_longer(const MigrationTask& first) noexcept = 0;
  /// The migration has ended: with this error, or in full if there is none. Takes the claim back.
  /// Requires: nothing is stopped, and the caller does not have the turn for slow calls.
  virtual void ended(std::shared_ptr<MigrationTask> task, MigrationReport report,
                     std::exception_ptr failure) noexcept = 0;
};

/// The migrations that one live move carries out together, each of another allocation. Their chunks
/// switch in the order of this list. One thread.
class LiveRanges {
 public:
  LiveRanges(MigrationParts& parts, LiveTasks& tasks, std::shared_ptr<MigrationTask> first);
  LiveRanges(const LiveRanges&) = delete;
  LiveRanges& operator=(const LiveRanges&) = delete;

  /// Adds the first migration. Null if it has ended already, with an error.
  LiveRange* add_first() noexcept;
  /// Adds another migration that waits for the same way. Null if there is none.
  LiveRange* join() noexcept;
  /// Ends the migration, and forgets it. Requires: none of its chunks is staged.
  void end(LiveRange& range, std::exception_ptr failure) noexcept;
  /// Ends the migrations whose chunks have all switched.
  void end_complete() noexcept;
  /// Calls `end_complete`. The first chunk that has not switched; null if there is none.
  LiveChunk* first_left() noexcept;
  /// If the migration waits for a pin and another one can go on, which may join for it, puts it
  /// last. Returns whether.
  bool postpone_pinned(LiveRange& range) noexcept;
  /// The next chunk in the order of the list that has not switched; null if there is none.
  LiveChunk* next(const LiveChunk& chunk) noexcept;
  /// The same; if there is none, another migration may join.
  LiveChunk* after(const LiveChunk& chunk) noexcept;

  bool any_unwanted() const noexcept;
  /// A chunk that can no longer move; null if there is none.
  LiveChunk* first_broken() noexcept;
  /// The move may wait for long: no migration joins any more.
  void lead_no_longer() noexcept { tasks_.lead_no_longer(*first_); }
  /// The migration that the move began with, which may have ended.
  const MigrationTask& first() const noexcept { return *first_; }
  /// The one whose chunks are next. Requires: there is one.
  const LiveRange& front() const { return ranges_.front(); }
  std::list<LiveRange>& all() noexcept { return ranges_; }

 private:
  LiveRange* add(std::shared_ptr<MigrationTask> task) noexcept;

  MigrationParts& parts_;
  LiveTasks& tasks_;
  const std::shared_ptr<MigrationTask> first_;
  std::list<LiveRange> ranges_;
  std::optional<ChunkStore::Hurry> hurry_;  // While there are any.
};

}  // namespace vma
