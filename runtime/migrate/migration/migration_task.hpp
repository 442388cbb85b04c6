#pragma once

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "memory/allocation.hpp"
#include "migrate/migration/callbacks.hpp"
#include "migrate/migration/requests.hpp"
#include "migrate/migration/transaction.hpp"

#include <vma/error.hpp>
#include <vma/migration.hpp>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

namespace vma {

class GroupAccount;

inline namespace v1 {

/// One migration in the background, seen from both sides: queries of a `Migration`, and reports of
/// the migrator's worker that executes it. Lives as long as either. Any thread.
class MigrationTask {
 public:
  MigrationTask(std::shared_ptr<Allocation> allocation, SlotRange range, Place to,
                const MigrateOptions& options, const MigrationTerms& terms, ContextHandle caller,
                Clock& clock, std::shared_ptr<Callbacks> callbacks,
                std::shared_ptr<GroupAccount> group = nullptr);

  // --- What was requested; constant.
  const Address begin;  ///< Of the allocation.
  const SlotRange range;
  const Place to;
  const MigrateOptions options;
  const MigrationTerms terms;
  const ContextHandle caller;                 ///< The context that was current at the request.
  const std::shared_ptr<GroupAccount> group;  ///< That it is one of; null if it is none.
  /// True in a child forked since: no worker exists to end the migration, and a lock that another
  /// thread of the parent held is never released. Call nothing below then.
  bool in_forked_child() const noexcept;

  // --- The user's side
  /// Blocks; false if `limit` passed first.
  bool wait_for(std::chrono::nanoseconds limit);
  /// The same for several tasks in turn: the first call that has to wait sets the deadline.
  bool wait_until(std::optional<TimePoint>& deadline, std::chrono::nanoseconds limit);
  void wait();
  bool done() const;
  void cancel() noexcept;
  MigrationReport report() const;
  /// Each caller gets its own exception.
  std::exception_ptr error() const;
  /// Throws: Error{busy} if there is no thread for it, std::bad_alloc; then it will not be called.
  void on_done(std::function<void()> callback);

  // --- The worker's side
  /// What was taken for its group before it may begin, and why it may not. One worker at a time has
  /// them.
  ReservedTargets reserved;
  std::exception_ptr refusal;
  /// Its group has not reserved its targets yet. The lock of the queue guards it.
  bool unreserved = false;
  /// Null once finished: a handle keeps no memory alive.
  std::shared_ptr<Allocation> allocation() const;
  bool cancelled() const noexcept { return cancelled_; }
  /// Sleeps until the time, or until it is cancelled or its allocation is being freed.
  void pause_until(TimePoint time);
  /// If the host has no memory for a report, it is dropped.
  void tell(const MigrationReport& report) noexcept;
  /// Needs no memory, so that a move always ends.
  void finish(MigrationReport report, std::optional<Error> error) noexcept;

 private:
  const int process_;
  Clock& clock_;  // Used only until it has finished: the machine may be destroyed then.
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
