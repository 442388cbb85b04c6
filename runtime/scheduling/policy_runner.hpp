#pragma once

#include "base/executor.hpp"
#include "base/mutex.hpp"

#include <vma/policy.hpp>

#include <chrono>
#include <functional>
#include <memory>
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

}  // namespace vma
