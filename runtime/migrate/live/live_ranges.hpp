#pragma once

#include "migrate/live/live_account.hpp"
#include "migrate/live/live_chunk.hpp"
#include "migrate/live/live_tasks.hpp"
#include "migrate/migration/migration_task.hpp"
#include "migrate/migration/move_notices.hpp"
#include "migrate/migration/move_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <exception>
#include <list>
#include <memory>
#include <optional>

namespace vma {

/// One migration of a live move: its chunks, what its hooks were told and what it reports. Only the
/// thread of the move uses it.
struct LiveRange {
  LiveRange(const MoveParts& parts, std::shared_ptr<MigrationTask> task);

  /// Names the chunks to move. Throws: Error if a user of the memory would not reach the target.
  void plan(const MoveParts& parts);
  /// Throws: Error{pinned, poisoned, dropped}.
  void require_movable() const;
  /// It was cancelled, or its memory is being freed.
  bool unwanted() const noexcept { return task->cancelled() || allocation.being_freed; }
  /// Null once all have switched.
  LiveChunk* first_left() noexcept;

  const std::shared_ptr<MigrationTask> task;
  Allocation& allocation;  // The task keeps it until it has ended.
  const TimePoint begun;
  MigrationReport report;  // Right at any time, whatever is thrown.
  LiveAccount account;
  MoveNotices notices;
  MemoryPressure::Want want;  // Its need for room.
  std::optional<TimePoint> pinned_since;
  std::deque<LiveChunk> chunks;  // In order of their slots.
  std::size_t switched = 0;      // All chunks before this one have switched.
};

/// The migrations that one live move carries out together, each of another allocation. Their chunks
/// switch in the order of this list. One thread.
class LiveRanges {
 public:
  LiveRanges(const MoveParts& parts, LiveTasks& tasks, std::shared_ptr<MigrationTask> first);
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

  const MoveParts& parts_;
  LiveTasks& tasks_;
  const std::shared_ptr<MigrationTask> first_;
  std::list<LiveRange> ranges_;
  std::optional<ChunkStore::Hurry> hurry_;  // While there are any.
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
