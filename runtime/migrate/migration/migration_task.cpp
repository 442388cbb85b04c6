#include "migrate/migration/migration_task.hpp"

#include "base/check.hpp"
#include "base/process_exit.hpp"
#include "migrate/migration/move_account.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace vma {
inline namespace v1 {

MigrationTask::MigrationTask(std::shared_ptr<Allocation> allocation, SlotRange slots, Place target,
                             const MigrateOptions& how, const MigrationTerms& conditions,
                             ContextHandle context, Clock& clock,
                             std::shared_ptr<Callbacks> callbacks,
                             std::shared_ptr<GroupAccount> account)
    : begin(allocation->begin()),
      range(slots),
      to(target),
      options(how),
      terms(conditions),
      caller(context),
      group(std::move(account)),
      process_(ProcessExit::process()),
      clock_(clock),
      callbacks_(std::move(callbacks)),
      allocation_(std::move(allocation)),
      report_(report_of(*allocation_, range)) {
  report_.outcome = Outcome::partly;
}

bool MigrationTask::in_forked_child() const noexcept {
  return ProcessExit::process() != process_;
}

std::shared_ptr<Allocation> MigrationTask::allocation() const {
  const MutexLock lock(mutex_);
  return allocation_;
}

bool MigrationTask::wait_for(std::chrono::nanoseconds limit) {
  std::optional<TimePoint> deadline;
  return wait_until(deadline, limit);
}

bool MigrationTask::wait_until(std::optional<TimePoint>& deadline, std::chrono::nanoseconds limit) {
  MutexLock lock(mutex_);
  if (done_) return true;
  if (!deadline) deadline = later(clock_.now(), limit);
  // On a simulated machine the deadline may not have come when a wait in real time is over.
  while (!done_ && clock_.now() < *deadline) {
    changed_.wait_until(lock, clock_, *deadline, [&]() VMART_NO_THREAD_ANALYSIS { return done_; });
  }
  return done_;
}

void MigrationTask::wait() {
  MutexLock lock(mutex_);
  changed_.wait(lock, [&]() VMART_NO_THREAD_ANALYSIS { return done_; });
}

bool MigrationTask::done() const {
  const MutexLock lock(mutex_);
  return done_;
}

void MigrationTask::cancel() noexcept {
  const MutexLock lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

MigrationReport MigrationTask::report() const {
  const MutexLock lock(mutex_);
  return report_;
}

std::exception_ptr MigrationTask::error() const {
  const MutexLock lock(mutex_);
  return error_ ? std::make_exception_ptr(error_->with_report(report_)) : nullptr;
}

void MigrationTask::on_done(std::function<void()> callback) {
  Callbacks::Posts posts;
  posts.push_back(std::move(callback));
  callbacks_->start();  // Now, when the caller can be told that there is no thread for it.
  {
    const MutexLock lock(mutex_);
    if (!done_) {
      on_done_.splice(on_done_.end(), posts);
      return;
    }
  }
  callbacks_->post(std::move(posts));
}

/// A free does not notify, so this polls for it.
void MigrationTask::pause_until(TimePoint time) {
  constexpr std::chrono::milliseconds look_period(1);
  MutexLock lock(mutex_);
  while (clock_.now() < time && !cancelled_ && !allocation_->being_freed) {
    const TimePoint until = std::min(time, clock_.now() + look_period);
    changed_.wait_until(lock, clock_, until,
                        [&]() VMART_NO_THREAD_ANALYSIS { return cancelled_.load(); });
  }
}

void MigrationTask::tell(const MigrationReport& report) noexcept {
  try {
    MigrationReport copy = report;
    const MutexLock lock(mutex_);
    std::swap(report_, copy);
  } catch (const std::bad_alloc&) {  // The next one will do.
  }
  tell_progress(*callbacks_, options.on_progress, report);
}

void MigrationTask::finish(MigrationReport report, std::optional<Error> error) noexcept {
  Callbacks::Posts callbacks;
  std::shared_ptr<Allocation> released;  // Released after the lock: it may be the last reference.
  {
    const MutexLock lock(mutex_);
    VMART_CHECK(!done_, "a migration ends once");
    std::swap(report_, report);
    error_ = std::move(error);
    done_ = true;
    callbacks.swap(on_done_);
    released = std::move(allocation_);
    changed_.notify_all();
  }
  callbacks_->post(std::move(callbacks));
}

}  // namespace v1
}  // namespace vma
