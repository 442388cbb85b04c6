#pragma once

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "migrate/stops/stop_stats.hpp"
#include "migrate/migration/callbacks.hpp"
#include "migrate/migration/migration_task.hpp"

#include <vma/group.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vma {

struct RequestedRange;

/// What migrations of one group have done together: the stops that they shared, each counted once,
/// how long the group took, and its progress. Any thread.
class GroupAccount : public std::enable_shared_from_this<GroupAccount> {
 public:
  using Progress = std::function<void(const MigrationProgress&)>;

  /// The group begins now. `on_progress` may be empty; `requested` has what each request asks for.
  GroupAccount(Clock& clock, std::vector<MigrationProgress> requested, Progress on_progress);
  /// The same, for these ranges.
  static std::shared_ptr<GroupAccount> of(Clock& clock, std::span<const RequestedRange> ranges,
                                          Progress on_progress);

  /// Work was stopped for at least one of the migrations; at a gate, which has a skew, or by a
  /// hold.
  void stopped(std::optional<std::chrono::nanoseconds> skew,
               std::chrono::nanoseconds stall) noexcept;
  /// That many stops for at least one of the migrations were given up.
  void gave_up(int stops) noexcept;
  /// A migration has ended.
  void ended() noexcept;

  /// What to call with the progress of request number `which`; empty if nobody asks for it. It
  /// calls the program with that of all requests, and keeps this object alive. Requires: calls do
  /// not overlap, as those on the completion thread do not.
  Progress progress_of(std::size_t which);

  /// The report of the whole.
  MigrationReport total(std::span<const RequestReport> requests) const;

 private:
  void progressed(std::size_t which, const MigrationProgress& now);

  Clock& clock_;
  const TimePoint begun_;
  const Progress on_progress_;
  std::vector<MigrationProgress> each_;  // The last progress of each request.
  MigrationProgress sum_;
  StopStats stops_;
  mutable Mutex mutex_;
  TimePoint ended_ VMART_GUARDED_BY(mutex_);
  int given_up_ VMART_GUARDED_BY(mutex_) = 0;
};

/// The error of a group: of the kind of its most serious failure, with a text that names the
/// requests which failed. Requires: at least one has.
Error group_error(const char* call, GroupReport group);

/// The part of an error's text that follows call and kind.
std::string detail_of(const Error& error);

inline namespace v1 {

/// Several migrations in the background that were asked for together, as a `MigrationGroup` sees
/// them: its requests, and the task of each. Immutable; any thread.
class GroupTask {
 public:
  /// `call` is the public call that errors name. Requires: a task for each request.
  GroupTask(const char* call, std::vector<MoveRequest> requests,
            std::vector<std::shared_ptr<MigrationTask>> tasks,
            std::shared_ptr<GroupAccount> account, std::shared_ptr<Callbacks> callbacks);

  /// As for a `MigrationTask`.
  bool in_forked_child() const noexcept;
  bool wait_for(std::chrono::nanoseconds limit) const;
  void wait() const;
  /// Blocks: until the program's progress callbacks for what has ended have returned.
  void await_progress() const { callbacks_->await_posted(); }
  bool done() const;
  void cancel() const noexcept;
  GroupReport report() const;
  /// Null while one of them runs, and if all have moved in full. Each caller gets its own.
  std::exception_ptr error() const;
  /// Throws: Error{busy} if there is no thread for it, std::bad_alloc; then it will not be called.
  void on_done(std::function<void()> callback) const;
  const std::vector<std::shared_ptr<MigrationTask>>& tasks() const noexcept { return tasks_; }

 private:
  const char* const call_;
  const std::vector<MoveRequest> requests_;
  const std::vector<std::shared_ptr<MigrationTask>> tasks_;
  const std::shared_ptr<GroupAccount> account_;
  const std::shared_ptr<Callbacks> callbacks_;
};

}  // namespace v1

}  // namespace vma
