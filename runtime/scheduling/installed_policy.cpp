#include "scheduling/installed_policy.hpp"

#include "base/log.hpp"

#include <fmt/format.h>

#include <utility>

namespace vma {
namespace {

constexpr const char* last_resort = "stay_put";

}  // namespace

InstalledPolicy::InstalledPolicy(Executor& executor, const Clock& clock,
                                 std::chrono::nanoseconds limit,
                                 const PolicyFailureLimits& failures, PolicyMaker make,
                                 DecisionPath& path, DecisionJournal& journal)
    : executor_(executor),
      clock_(clock),
      limit_(limit),
      make_(std::move(make)),
      path_(path),
      journal_(journal),
      failures_(failures) {}

void InstalledPolicy::set(const std::string& text) {
  leave_books_to_lost_one();
  install(text, "asked for");
  forget_failures();
}

bool InstalledPolicy::ask(PolicyEntry entry, DecisionPath::PolicyCall call, Plan& plan) {
  replace_failed();
  DecisionPath::Question question = path_.question(std::move(call));
  const PolicyRunner::Answer answer = runner_->run(std::move(question.ask), limit_);
  if (answer.outcome == PolicyRunner::Outcome::done) {
    failures_.succeeded(entry);
    plan = std::move(*question.wishes);
    journal_.begin_plan();
    return true;
  }
  count_failure(entry, answer.outcome);
  failed(answer.outcome == PolicyRunner::Outcome::overran
             ? fmt::format("it has not answered within {} ms",
                           std::chrono::duration_cast<std::chrono::milliseconds>(limit_).count())
             : answer.why);
  return false;
}

void InstalledPolicy::count_failure(PolicyEntry entry, PolicyRunner::Outcome outcome) noexcept {
  using Replacement = PolicyFailures::Replacement;
  using Outcome = PolicyRunner::Outcome;
  ++failed_calls_;
  const Replacement due = failures_.failed(entry, clock_.now(),
                                           outcome == Outcome::overran     ? Replacement::lost
                                           : outcome == Outcome::no_memory ? Replacement::no_memory
                                                                           : Replacement::none);
  if (due != Replacement::none) due_ = due;
  books_shared_ = books_shared_ || outcome == Outcome::overran;
}

/// Requires: the failure is counted, so that the next call replaces the policy if this throws.
void InstalledPolicy::failed(const std::string& why) {
  log_failure(why);
  journal_.add(DecisionKind::policy_failed, why);
  leave_books_to_lost_one();
  replace_failed();
}

void InstalledPolicy::leave_books_to_lost_one() {
  if (!books_shared_) return;
  path_.leave_books();
  books_shared_ = false;
}

/// Throws: what `install` throws; then the next call tries again.
void InstalledPolicy::replace_failed() {
  using Replacement = PolicyFailures::Replacement;
  if (due_ == Replacement::none) return;
  const std::string policy = journal_.policy();
  switch (due_) {
    case Replacement::none: break;  // Returned above.
    case Replacement::failed_in_a_row:
      install(last_resort,
              fmt::format("{} failed {} times in a row", policy, failures_.limits().in_a_row_max));
      break;
    case Replacement::failed_in_window:
      install(last_resort,
              fmt::format("{} failed {} times in {:.0f} s", policy, failures_.in_window(),
                          std::chrono::duration<double>(failures_.limits().window).count()));
      break;
    case Replacement::lost: install(policy, "the previous one does not answer"); break;
    case Replacement::no_memory: install(policy, "the previous one ran out of memory"); break;
  }
  due_ = Replacement::none;
}

/// Logs at most once a second; the decision log has all failures.
void InstalledPolicy::log_failure(const std::string& why) noexcept {
  constexpr std::chrono::seconds period(1);
  const TimePoint now = wall_clock_.now();
  if (failure_logged_ && now - *failure_logged_ < period) {
    ++failures_not_logged_;
    return;
  }
  failure_logged_ = now;
  const std::uint64_t more = std::exchange(failures_not_logged_, 0);
  if (more > 0) {
    log(LogLevel::warn, "policy {}: {}; its plan is dropped ({} failures before were not logged)",
        journal_.policy(), why, more);
  } else {
    log(LogLevel::warn, "policy {}: {}; its plan is dropped", journal_.policy(), why);
  }
}

/// Throws: what the maker throws; then nothing has changed.
void InstalledPolicy::install(const std::string& text, const std::string& why) {
  std::string name = text;
  std::shared_ptr<Policy> policy = make_(text);
  runner_ = std::make_unique<PolicyRunner>(executor_, std::move(policy));
  if (text != journal_.policy()) forget_failures();
  journal_.set_policy(std::move(name));
  journal_.add(DecisionKind::policy_replaced, why);
}

void InstalledPolicy::forget_failures() noexcept {
  failures_.forget();
  due_ = PolicyFailures::Replacement::none;
}

}  // namespace vma
