#include "migrate/migration/group_task.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

namespace vma {
inline namespace v1 {
namespace {

/// The task's own error, for the report of its group.
std::optional<Error> error_of(const MigrationTask& task) {
  const std::exception_ptr failure = task.error();
  if (!failure) return std::nullopt;
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace

GroupTask::GroupTask(const char* call, std::vector<MoveRequest> requests,
                     std::vector<std::shared_ptr<MigrationTask>> tasks,
                     std::shared_ptr<GroupAccount> account, std::shared_ptr<Callbacks> callbacks)
    : call_(call),
      requests_(std::move(requests)),
      tasks_(std::move(tasks)),
      account_(std::move(account)),
      callbacks_(std::move(callbacks)) {
  VMART_CHECK(requests_.size() == tasks_.size(), "each request has a task");
}

bool GroupTask::in_forked_child() const noexcept {
  return !tasks_.empty() && tasks_.front()->in_forked_child();
}

bool GroupTask::wait_for(std::chrono::nanoseconds limit) const {
  std::optional<TimePoint> deadline;  // One for all.
  return std::ranges::all_of(tasks_,
                             [&](const auto& task) { return task->wait_until(deadline, limit); });
}

void GroupTask::wait() const {
  for (const auto& task : tasks_) task->wait();
}

bool GroupTask::done() const {
  return std::ranges::all_of(tasks_, [](const auto& task) { return task->done(); });
}

void GroupTask::cancel() const noexcept {
  for (const auto& task : tasks_) task->cancel();
}

GroupReport GroupTask::report() const {
  GroupReport report;
  for (std::size_t which = 0; which < tasks_.size(); ++which) {
    // First the error: with it, the report is the last one.
    std::optional<Error> error = error_of(*tasks_[which]);
    report.requests.push_back({requests_[which], tasks_[which]->report(), std::move(error)});
  }
  report.total = account_->total(report.requests);
  return report;
}

std::exception_ptr GroupTask::error() const {
  if (!done()) return nullptr;
  GroupReport report = this->report();
  if (report.failed() == 0) return nullptr;
  return std::make_exception_ptr(group_error(call_, std::move(report)));
}

void GroupTask::on_done(std::function<void()> callback) const {
  if (tasks_.empty()) return callbacks_->post(std::move(callback));
  struct Countdown {
    std::atomic<std::size_t> left;
    std::function<void()> then;
  };
  const auto countdown = std::make_shared<Countdown>(tasks_.size(), std::move(callback));
  for (const auto& task : tasks_) {
    task->on_done([countdown] {
      if (--countdown->left == 0) countdown->then();
    });
  }
}

}  // namespace v1
}  // namespace vma
