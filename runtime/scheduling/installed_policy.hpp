#pragma once

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "base/mutex.hpp"
#include "placement/deciding/decision_path.hpp"
#include "placement/deciding/policy_failures.hpp"
#include "scheduling/decision_journal.hpp"

#include <vma/policy.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace vma {

/// Runs the calls of one policy on its own thread, so that a call that never returns does not block
/// the caller. One caller at a time.
class PolicyRunner {
 public:
  /// `no_memory`: it threw std::bad_alloc, so its state may be incomplete.
  enum class Outcome { done, threw, no_memory, overran };

  /// Throws: what starting a thread throws.
  PolicyRunner(Executor& executor, std::shared_ptr<Policy> policy);
  /// Blocks: until the policy has returned, unless a call of it overran.
  ~PolicyRunner();

  struct Answer {
    Outcome outcome = Outcome::done;
    std::string why;  ///< Message of the exception, if there is memory for it.
    std::chrono::nanoseconds took{0};
  };
  /// Calls `body` with the policy and waits for it for at most `limit` of the processor's time.
  /// After `overran` the body may still run: it must own or share what it uses, and this object
  /// takes no further call. Requires: no call has overrun before.
  Answer run(std::function<void(Policy&)> body, std::chrono::nanoseconds limit);

 private:
  struct State;
  static void work(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
  std::unique_ptr<Task> task_;
  bool lost_ = false;
};

/// Makes a policy from its name and parameters. Throws: Error{invalid_argument}.
using PolicyMaker = std::function<std::unique_ptr<Policy>(const std::string&)>;

/// The policy that a scheduler asks: runs its calls, counts its failures, and replaces it if it
/// fails too often, and by a new one of the same kind if it does not return or had no memory. The
/// scheduler's, one thread at a time.
/// One owner: one policy, and the failures that decide when another is made and what is logged.
class InstalledPolicy {
 public:
  /// `limit`: how long one call may take. No policy is installed at first. All arguments outlive
  /// it.
  InstalledPolicy(Executor& executor, const Clock& clock, std::chrono::nanoseconds limit,
                  const PolicyFailureLimits& failures, PolicyMaker make, DecisionPath& path,
                  DecisionJournal& journal);

  /// Installs a policy on request of a person or program. Throws: what the maker throws; then the
  /// former one stays.
  void set(const std::string& text);
  /// False if the policy produced no plan. Its input stays unchanged until it returns, however
  /// late. Blocks: until it returns, for at most the limit.
  bool ask(PolicyEntry entry, DecisionPath::PolicyCall call, Plan& plan);
  /// A policy that overran may read its books for ever, so the scheduler continues with a copy:
  /// call this before writing to the books. Throws: std::bad_alloc; then the books must not be
  /// written to.
  void leave_books_to_lost_one();
  /// The number of failed calls.
  std::uint64_t failures() const noexcept { return failed_calls_; }

 private:
  void install(const std::string& text, const std::string& why);
  void count_failure(PolicyEntry entry, PolicyRunner::Outcome outcome) noexcept;
  void failed(const std::string& why);
  void replace_failed();
  void forget_failures() noexcept;
  void log_failure(const std::string& why) noexcept;

  Executor& executor_;
  const Clock& clock_;
  const std::chrono::nanoseconds limit_;
  const PolicyMaker make_;
  DecisionPath& path_;
  DecisionJournal& journal_;  // Stores the policy's name.
  std::unique_ptr<PolicyRunner> runner_;
  PolicyFailures failures_;
  PolicyFailures::Replacement due_ = PolicyFailures::Replacement::none;
  std::uint64_t failed_calls_ = 0;
  bool books_shared_ = false;  // With a policy that overran.
  SteadyClock wall_clock_;
  std::optional<TimePoint> failure_logged_;  // By `wall_clock_`.
  std::uint64_t failures_not_logged_ = 0;
};

}  // namespace vma
