// The calls that move memory. Each moves a group: that of a call with one pointer has one request.
#include <vma/error.hpp>
#include <vma/group.hpp>
#include <vma/runtime.hpp>

#include "runtime/argument_checks.hpp"
#include "runtime/move_requests.hpp"
#include "runtime/runtime_parts.hpp"

#include "migrate/migration/group.hpp"
#include "migrate/migration/target_reservation.hpp"
#include "migrate/stops/copy_scopes.hpp"

#include <algorithm>
#include <cstddef>
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
    check_background_move(*allocation, entry->mover, options, call);
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

/// In the background. What may not move is an error of its task, or thrown if it is `alone`.
std::shared_ptr<GroupTask> start(RuntimeParts& parts, std::span<const MoveRequest> requests,
                                 const MigrateOptions& options, const char* call,
                                 bool alone = false) {
  const RuntimeParts::Entry entry(parts, call);
  check_background_options(options, call);
  const std::vector<RequestedRange> ranges = resolve_requests(requests, *entry, call);
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
    submission.terms.requires_guards = false;  // They have been asked for.
    if (alone && submission.refusal) throw Error(*submission.refusal);
  }
  if (options.all_or_nothing) refuse_with_others(submissions, call);
  return std::make_shared<GroupTask>(call, std::vector(requests.begin(), requests.end()),
                                     entry->mover.submit_all(std::move(submissions)), account,
                                     entry->mover.shared_callbacks());
}

/// For a caller that waits. Throws only what prevents that anything begins.
GroupReport move(RuntimeParts& parts, std::span<const MoveRequest> requests,
                 const MigrateOptions& options, bool alone = false) {
  constexpr const char* call = "vma::migrate";
  if (options.scope == StopScope::attached) {
    const std::shared_ptr<GroupTask> task = start(parts, requests, options, call, alone);
    // Waits outside, so that a shutdown can end the moves.
    task->wait();
    if (options.on_progress) task->await_progress();
    return task->report();
  }
  const RuntimeParts::Entry entry(parts, call);
  check_held_move(options, call);
  if (!options.nothing_runs) CopyScopes::process().look();
  const std::vector<RequestedRange> ranges = resolve_requests(requests, *entry, call);
  GroupReport report;
  const auto account = GroupAccount::of(parts.driver->clock(), ranges, options.on_progress);
  std::vector<RangeResult> results;
  {
    const AwaitedCallbacks progress(entry->mover.callbacks(),
                                    static_cast<bool>(options.on_progress));
    results = entry->mover.move_all(ranges, options, {}, *account);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    report.requests.push_back(
        {requests[i], std::move(results[i].report), std::move(results[i].error)});
  }
  report.total = account->total(report.requests);
  return report;
}

MigrationReport move_one(RuntimeParts& parts, const MoveRequest& request,
                         const MigrateOptions& options) {
  GroupReport group = move(parts, {&request, 1}, options, true);
  auto& [what, report, error] = group.requests.front();
  if (error) throw Error(*error);
  return std::move(report);
}

Migration start_one(RuntimeParts& parts, const MoveRequest& request,
                    const MigrateOptions& options) {
  return Migration(
      start(parts, {&request, 1}, options, "vma::migrate_async", true)->tasks().front());
}

/// A range that came to nothing is more likely an error than a wish to move all.
MoveRequest part_of(void* pointer, std::size_t offset, std::size_t bytes, Location to,
                    const char* call) {
  if (bytes > 0) return {pointer, to, offset, bytes};
  throw Error(ErrorKind::invalid_argument, call, "bytes is 0; name no range to move all of it");
}

}  // namespace

inline namespace v1 {

MigrationReport Runtime::migrate(void* pointer, Location to, const MigrateOptions& options) {
  return move_one(*parts_, {pointer, to}, options);
}

MigrationReport Runtime::migrate(void* pointer, std::size_t offset, std::size_t bytes, Location to,
                                 const MigrateOptions& options) {
  return move_one(*parts_, part_of(pointer, offset, bytes, to, "vma::migrate"), options);
}

GroupReport Runtime::migrate(std::span<const MoveRequest> requests, const MigrateOptions& options) {
  GroupReport report = move(*parts_, requests, options);
  if (report.failed() > 0) throw group_error("vma::migrate", std::move(report));
  return report;
}

Migration Runtime::migrate_async(void* pointer, Location to, const MigrateOptions& options) {
  return start_one(*parts_, {pointer, to}, options);
}

Migration Runtime::migrate_async(void* pointer, std::size_t offset, std::size_t bytes, Location to,
                                 const MigrateOptions& options) {
  return start_one(*parts_, part_of(pointer, offset, bytes, to, "vma::migrate_async"), options);
}

MigrationGroup Runtime::migrate_async(std::span<const MoveRequest> requests,
                                      const MigrateOptions& options) {
  return MigrationGroup(start(*parts_, requests, options, "vma::migrate_async"));
}

}  // namespace v1
}  // namespace vma
