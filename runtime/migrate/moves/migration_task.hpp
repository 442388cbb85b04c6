#pragma once

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "memory/allocation.hpp"
#include "migrate/moves/callbacks.hpp"
#include "migrate/moves/move_terms.hpp"

#include <vma/error.hpp>
#include <vma/migration.hpp>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

namespace vma {

/// Slots [first, end) of an allocation.
struct SlotRange {
  std::size_t first = 0;
  std::size_t end = 0;
};

inline namespace v1 {

/// One migration in the background, seen from both sides: what a `Migration` asks, and what the
/// mover's worker that carries it out tells. Lives as long as either. Any thread.
class MigrationTask {
 public:
  MigrationTask(std::shared_ptr<Allocation> allocation, SlotRange range, Location to,
                const MigrateOptions& options, const MoveTerms& terms, ContextHandle caller,
                Clock& clock, std::shared_ptr<Callbacks> callbacks);

  // --- What was asked for; constant.
  const Address begin;  ///< Of the allocation.
  const SlotRange range;
  const Location to;
  const MigrateOptions options;
  const MoveTerms terms;
  const ContextHandle caller;  ///< The context that was current where it was asked for.
  /// True in a child that was forked since: no worker is there to end the migration, and a lock
  /// that another thread of the parent held is never let go of. Nothing below may be called then.
  bool in_forked_child() const noexcept;

  // --- The user's side
  /// Blocks; false if `limit` passed first.
  bool wait_for(std::chrono::nanoseconds limit);
  void wait();
  bool done() const;
  void cancel() noexcept;
  MigrationReport report() const;
  /// Each who asks gets an exception of its own.
  std::exception_ptr error() const;
  /// Throws: Error{busy} if there is no thread for it, std::bad_alloc; then it is not called.
  void on_done(std::function<void()> callback);

  // --- The worker's side
  /// Null once finished: a handle keeps no memory alive.
  std::shared_ptr<Allocation> allocation() const;
  bool cancelled() const noexcept { return cancelled_; }
  /// Until the time, or until it is cancelled or its allocation is being freed.
  void pause_until(TimePoint time);
  /// Where the host has no memory for it, nobody is told, and that is counted.
  void tell(const MigrationReport& report) noexcept;
  /// Wants no memory, so that a move always ends.
  void finish(MigrationReport report, std::optional<Error> error) noexcept;

 private:
  const int process_;
  Clock& clock_;  // Used until it has finished only: the machine may go then.
  const std::shared_ptr<Callbacks> callbacks_;
  std::atomic<bool> cancelled_{false};
  mutable Mutex mutex_;
  Condition changed_;
  std::shared_ptr<Allocation> allocation_ VMART_GUARDED_BY(mutex_);
  bool done_ VMART_GUARDED_BY(mutex_) = false;
  MigrationReport report_ VMART_GUARDED_BY(mutex_);
  std::optional<Error> error_ VMART_GUARDED_BY(mutex_);
  Callbacks::Posts on_done_ VMART_GUARDED_BY(mutex_);
};

}  // namespace v1
}  // namespace vma
