#include "scheduling/installed_policy.hpp"

#include "base/check.hpp"
#include "base/log.hpp"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <utility>

namespace vma {
namespace {

/// In a handler, nothing may throw.
std::string text_of(const char* text) noexcept {
  try {
    return text;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

constexpr const char* last_resort = "stay_put";

}  // namespace

/// Shared with the thread, which may outlive the runner.
struct PolicyRunner::State {
  explicit State(std::shared_ptr<Policy> its) : policy(std::move(its)) {}

  const std::shared_ptr<Policy> policy;
  SteadyClock clock;  // A policy's limit is in real time, on simulated machines too.
  Mutex mutex;
  Condition changed;
  std::function<void(Policy&)> body VMART_GUARDED_BY(mutex);  // Empty: nothing to do.
  bool stop VMART_GUARDED_BY(mutex) = false;
  Outcome outcome VMART_GUARDED_BY(mutex) = Outcome::done;
  std::string why VMART_GUARDED_BY(mutex);
};

PolicyRunner::PolicyRunner(Executor& executor, std::shared_ptr<Policy> policy)
    : state_(std::make_shared<State>(std::move(policy))) {
  task_ = executor.spawn("vmart policy", [state = state_] { work(state); });
}

PolicyRunner::~PolicyRunner() {
  {
    const MutexLock lock(state_->mutex);
    state_->stop = true;
    state_->changed.notify_all();
  }
  if (lost_) {
    task_->abandon();
  } else {
    task_->join();
  }
}

PolicyRunner::Answer PolicyRunner::run(std::function<void(Policy&)> body,
                                       std::chrono::nanoseconds limit) {
  VMART_CHECK(!lost_, "a policy that timed out is not called again");
  const TimePoint begin = state_->clock.now();
  MutexLock lock(state_->mutex);
  state_->body = std::move(body);
  state_->changed.notify_all();
  const auto ended = [this]() VMART_NO_THREAD_ANALYSIS { return !state_->body; };
  // A stepped machine's time differs from this clock, and its threads always return.
  const TimePoint deadline = Stepper::current() != nullptr ? never : begin + limit;
  lost_ = !state_->changed.wait_until(lock, state_->clock, deadline, ended);
  const auto took = state_->clock.now() - begin;
  if (lost_) return {Outcome::overran, {}, took};
  return {state_->outcome, std::move(state_->why), took};
}

void PolicyRunner::work(const std::shared_ptr<State>& state) {
  MutexLock lock(state->mutex);
  while (true) {
    state->changed.wait(lock,
                        [&]() VMART_NO_THREAD_ANALYSIS { return state->stop || state->body; });
    if (!state->body) return;
    // In place: the caller does not touch it until it is empty, which only happens here.
    const std::function<void(Policy&)>* body = &state->body;
    lock.unlock();
    Outcome outcome = Outcome::done;
    std::string why;
    try {
      (*body)(*state->policy);
    } catch (const std::bad_alloc& error) {
      outcome = Outcome::no_memory;
      why = text_of(error.what());
    } catch (const std::exception& error) {
      outcome = Outcome::threw;
      why = text_of(error.what());
    } catch (...) {
      outcome = Outcome::threw;
      why = text_of("an exception of an unknown type");
    }
    lock.lock();
    state->outcome = outcome;
    state->why = std::move(why);
    state->body = nullptr;  // What it owns is released on this thread.
    state->changed.notify_all();
  }
}

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
  path_.forget_pace();
}

bool InstalledPolicy::ask(PolicyEntry entry, DecisionPath::PolicyCall call, Plan& plan) {
  replace_failed();
  DecisionPath::Question question = path_.question(std::move(call));
  const PolicyRunner::Answer answer = runner_->run(std::move(question.ask), limit_);
  if (answer.outcome == PolicyRunner::Outcome::done) {
    failures_.succeeded(entry);
    plan = std::move(*question.proposals);
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
