// The calls that move several allocations at once.
#include <vma/error.hpp>
#include <vma/group.hpp>
#include <vma/runtime.hpp>

#include "runtime/argument_checks.hpp"
#include "runtime/move_requests.hpp"
#include "runtime/runtime_parts.hpp"

#include "migrate/migration/group_account.hpp"
#include "migrate/migration/group_task.hpp"
#include "migrate/migration/target_reservation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace vma {
namespace {

/// Why the range may not move, if that is known already.
std::optional<Error> refusal_of(const RuntimeParts::Entry& entry, const RequestedRange& wanted,
                                const MigrateOptions& options, const char* call) {
  const auto& [allocation, range, to] = wanted;
  try {
    check_background_move(*allocation, entry->mover.attached(), options, call);
    check_not_dropped(*allocation, range, call);
    entry->mover.reach().require_atomics(*allocation, range, to, call);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

/// If one may not move, none does.
void refuse_with_others(std::vector<Submission>& submissions, const char* call) {
  const auto refused = [](const Submission& one) { return one.refusal.has_value(); };
  if (std::ranges::none_of(submissions, refused)) return;
  for (Submission& one : submissions) {
    if (!one.refusal) one.refusal = nothing_moves(call);
  }
}

std::shared_ptr<GroupTask> start_group(RuntimeParts& parts, std::span<const MoveRequest> requests,
                                       const MigrateOptions& options, const char* call) {
  const RuntimeParts::Entry entry(parts, call);
  check_background_options(options, call);
  const std::vector<RequestedRange> ranges =
      resolve_requests(requests, entry->memory, entry->topology, call);
  const auto account = GroupAccount::of(parts.driver->clock(), ranges, options.on_progress);
  std::vector<Submission> submissions;
  for (std::size_t which = 0; which < ranges.size(); ++which) {
    Submission& submission = submissions.emplace_back();
    submission.what = ranges[which];
    submission.options = options;
    if (options.all_or_nothing) submission.options.reserve_first = false;  // It is done for all.
    submission.options.on_progress = account->progress_of(which);
    submission.group = account;
    submission.refusal = refusal_of(entry, ranges[which], options, call);
  }
  if (options.all_or_nothing) refuse_with_others(submissions, call);
  return std::make_shared<GroupTask>(call, std::vector(requests.begin(), requests.end()),
                                     entry->mover.submit_all(std::move(submissions)), account,
                                     entry->mover.shared_callbacks());
}

}  // namespace

inline namespace v1 {

GroupReport Runtime::migrate(std::span<const MoveRequest> requests, const MigrateOptions& options) {
  constexpr const char* call = "vma::migrate";
  if (options.scope == StopScope::attached) {
    const std::shared_ptr<GroupTask> task = start_group(*parts_, requests, options, call);
    // Waits outside, so that a shutdown can end the moves.
    task->wait();
    if (options.on_progress) task->await_progress();
    return MigrationGroup(task).wait();
  }
  const RuntimeParts::Entry entry(*parts_, call);
  check_held_move(options, call);
  const std::vector<RequestedRange> ranges =
      resolve_requests(requests, entry->memory, entry->topology, call);
  GroupReport report = report_of(requests);
  const auto account = GroupAccount::of(parts_->driver->clock(), ranges, options.on_progress);
  std::vector<RangeResult> results;
  {
    const AwaitedCallbacks progress(entry->mover.callbacks(),
                                    static_cast<bool>(options.on_progress));
    results = entry->mover.move_all(ranges, options, {}, *account);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    report.requests[i].report = std::move(results[i].report);
    report.requests[i].error = std::move(results[i].error);
  }
  report.total = account->total(report.requests);
  if (report.failed() > 0) throw group_error(call, std::move(report));
  return report;
}

MigrationGroup Runtime::migrate_async(std::span<const MoveRequest> requests,
                                      const MigrateOptions& options) {
  return MigrationGroup(start_group(*parts_, requests, options, "vma::migrate_async"));
}

GroupTask& MigrationGroup::task() const {
  constexpr const char* call = "vma::MigrationGroup";
  if (!task_) throw Error(ErrorKind::invalid_argument, call, "it refers to no migrations");
  if (!task_->in_forked_child()) return *task_;
  throw Error(ErrorKind::driver_gone, call,
              "this is a forked child; the migrations continue only in the parent");
}

GroupReport MigrationGroup::wait() const {
  task().wait();
  if (const std::exception_ptr failure = task().error()) std::rethrow_exception(failure);
  return task().report();
}

bool MigrationGroup::wait_for(std::chrono::nanoseconds limit) const {
  return task().wait_for(limit);
}

bool MigrationGroup::done() const {
  return task().done();
}

void MigrationGroup::cancel() const {
  task().cancel();
}

GroupReport MigrationGroup::report() const {
  return task().report();
}

std::exception_ptr MigrationGroup::error() const {
  return task().error();
}

void MigrationGroup::on_done(std::function<void()> callback) const {
  if (!callback) throw Error(ErrorKind::invalid_argument, "vma::MigrationGroup", "no callback");
  task().on_done(std::move(callback));
}

std::size_t MigrationGroup::size() const {
  return task().tasks().size();
}

Migration MigrationGroup::request(std::size_t which) const {
  if (which < size()) return Migration(task().tasks()[which]);
  throw Error(ErrorKind::invalid_argument, "vma::MigrationGroup",
              fmt::format("there is no request {}; there are {}", which, size()));
}

}  // namespace v1
}  // namespace vma
