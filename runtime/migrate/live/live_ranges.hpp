#pragma once

#include "migrate/live/live_range.hpp"
#include "migrate/migration/migration_task.hpp"
#include "migrate/migration/move_parts.hpp"

#include <vma/migration.hpp>

#include <exception>
#include <list>
#include <memory>
#include <optional>

namespace vma {

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

}  // namespace vma
