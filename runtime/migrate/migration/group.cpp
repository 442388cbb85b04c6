#include "migrate/migration/group.hpp"

#include "base/check.hpp"
#include "migrate/migration/move_account.hpp"
#include "migrate/migration/requests.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string_view>
#include <utility>

namespace vma {
namespace {

/// How many reasons the text of an error spells out, and how many requests it names for each.
constexpr std::size_t reasons_max = 3, named_max = 8;

Outcome outcome_of(std::span<const RequestReport> requests, const MigrationReport& total) {
  const auto all = [&](auto&& is) { return std::ranges::all_of(requests, is); };
  const auto is_done = [](const RequestReport& one) {
    return !one.error && one.report.outcome == Outcome::done;
  };
  if (all(is_done)) return Outcome::done;
  const bool cancelled = all([&](const RequestReport& one) {
    return is_done(one) || one.report.outcome == Outcome::cancelled;
  });
  if (cancelled) return Outcome::cancelled;
  // Those that still move have neither an error nor are done.
  const bool all_failed = all([](const RequestReport& one) { return one.error.has_value(); });
  return all_failed && total.chunks_moved == 0 ? Outcome::failed : Outcome::partly;
}

void add(MigrationReport& total, const MigrationReport& one) {
  total.bytes_asked += one.bytes_asked;
  total.bytes_moved += one.bytes_moved;
  total.bytes_copied_twice += one.bytes_copied_twice;
  total.bytes_remapped += one.bytes_remapped;
  total.chunks += one.chunks;
  total.chunks_moved += one.chunks_moved;
  total.chunks_live += one.chunks_live;
  total.copies_kept += one.copies_kept;
  for (const auto& [reason, count] : one.reasons) total.reasons[reason] += count;
  total.gate_limit = std::max(total.gate_limit, one.gate_limit);
  if (one.stop != StopKind::none) total.stop = one.stop;
  total.dark_max = std::max(total.dark_max, one.dark_max);
  total.importers += one.importers;
  total.importer_stall = std::max(total.importer_stall, one.importer_stall);
  total.phases.wait = std::max(total.phases.wait, one.phases.wait);
  total.phases.copy = std::max(total.phases.copy, one.phases.copy);
  for (const auto phase : {&Phases::cache, &Phases::settle, &Phases::unmap, &Phases::map,
                           &Phases::grant, &Phases::retire}) {
    total.phases.*phase += one.phases.*phase;
  }
}

/// Its routes are the parts between commas, "gpu(0)->gpu(1)".
std::string joined_routes(std::span<const RequestReport> requests) {
  constexpr std::string_view comma = ", ";
  std::set<std::string, std::less<>> routes;
  for (const RequestReport& one : requests) {
    std::string_view left = one.report.route;
    while (!left.empty()) {
      const std::size_t end = std::min(left.find(comma), left.size());
      routes.emplace(left.substr(0, end));
      left.remove_prefix(std::min(end + comma.size(), left.size()));
    }
  }
  return fmt::format("{}", fmt::join(routes, comma));
}

/// A lost slot is worse than anything else, and a cancellation is no failure of its own.
const RequestReport& most_serious(const GroupReport& group) {
  const auto is = [](ErrorKind kind) {
    return [kind](const RequestReport& one) { return one.error && one.error->kind() == kind; };
  };
  const auto other = [](const RequestReport& one) {
    return one.error && one.error->kind() != ErrorKind::cancelled;
  };
  const auto end = group.requests.end();
  auto found = std::ranges::find_if(group.requests, is(ErrorKind::poisoned));
  if (found == end) found = std::ranges::find_if(group.requests, other);
  if (found == end) found = std::ranges::find_if(group.requests, is(ErrorKind::cancelled));
  return *found;
}

/// "request 3: ...; requests 5, 6: ...": which failed for each reason.
std::string reasons_of(const GroupReport& group) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> reasons;
  std::size_t left_out = 0;
  for (std::size_t which = 0; which < group.requests.size(); ++which) {
    if (!group.requests[which].error) continue;
    const std::string reason = group.requests[which].error->what();
    auto known = std::ranges::find(reasons, reason, [](const auto& one) { return one.first; });
    if (known == reasons.end()) {
      if (reasons.size() == reasons_max) {
        ++left_out;
        continue;
      }
      known = reasons.insert(known, {reason, {}});
    }
    known->second.push_back(which);
  }
  std::string text;
  for (const auto& [reason, which] : reasons) {
    const std::size_t named = std::min(which.size(), named_max);
    text += fmt::format("{}request{} {}", text.empty() ? "" : "; ", which.size() == 1 ? "" : "s",
                        fmt::join(which.begin(), which.begin() + static_cast<long>(named), ", "));
    if (which.size() > named) text += fmt::format(" and {} more", which.size() - named);
    text += ": " + reason;
  }
  if (left_out > 0) text += fmt::format("; {} more for other reasons", left_out);
  return text;
}

}  // namespace

GroupAccount::GroupAccount(Clock& clock, std::vector<MigrationProgress> requested,
                           Progress on_progress)
    : clock_(clock),
      begun_(clock.now()),
      on_progress_(std::move(on_progress)),
      each_(std::move(requested)),
      ended_(begun_) {
  for (const MigrationProgress& one : each_) {
    sum_.chunks += one.chunks;
    sum_.bytes_asked += one.bytes_asked;
  }
}

std::shared_ptr<GroupAccount> GroupAccount::of(Clock& clock, std::span<const RequestedRange> ranges,
                                               Progress on_progress) {
  std::vector<MigrationProgress> requested;
  for (const auto& [allocation, range, to] : ranges) {
    requested.push_back(vma::progress_of(report_of(*allocation, range)));
  }
  return std::make_shared<GroupAccount>(clock, std::move(requested), std::move(on_progress));
}

void GroupAccount::stopped(std::optional<std::chrono::nanoseconds> skew,
                           std::chrono::nanoseconds stall) noexcept {
  if (skew) stops_.add_skew(*skew);
  stops_.add_stall(stall);
}

void GroupAccount::gave_up(int stops) noexcept {
  const MutexLock lock(mutex_);
  given_up_ += stops;
}

void GroupAccount::ended() noexcept {
  const MutexLock lock(mutex_);
  ended_ = clock_.now();
}

GroupAccount::Progress GroupAccount::progress_of(std::size_t which) {
  if (!on_progress_) return {};
  return [account = shared_from_this(), which](const MigrationProgress& now) {
    account->progressed(which, now);
  };
}

void GroupAccount::progressed(std::size_t which, const MigrationProgress& now) {
  MigrationProgress& before = each_[which];
  sum_.chunks_moved += now.chunks_moved - before.chunks_moved;
  sum_.bytes_moved += now.bytes_moved - before.bytes_moved;
  before = now;
  on_progress_(sum_);
}

MigrationReport GroupAccount::total(std::span<const RequestReport> requests) const {
  MigrationReport total;
  for (const RequestReport& one : requests) add(total, one.report);
  total.outcome = outcome_of(requests, total);
  total.route = joined_routes(requests);
  total.skew = stops_.skew();
  total.stall = stops_.stall();
  const MutexLock lock(mutex_);
  total.retries = given_up_;
  total.wall = ended_ - begun_;
  return total;
}

Error group_error(const char* call, GroupReport group) {
  const Error worst = *most_serious(group).error;
  const std::string text = fmt::format(
      "{} of {} requests did not move in full (Error::group() has the report of each, "
      "counted from 0): {}",
      group.failed(), group.requests.size(), reasons_of(group));
  return Error(worst.kind(), call, text, worst.native()).with_group(std::move(group));
}

std::string detail_of(const Error& error) {
  const std::string_view text = error.what();
  const std::string before = fmt::format("{}: {}: ", error.call(), to_string(error.kind()));
  return std::string(text.starts_with(before) ? text.substr(before.size()) : text);
}

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
