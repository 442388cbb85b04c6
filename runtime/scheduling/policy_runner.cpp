#include "scheduling/policy_runner.hpp"

#include "base/check.hpp"

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

}  // namespace vma
