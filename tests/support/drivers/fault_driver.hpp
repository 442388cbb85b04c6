#pragma once

#include "base/mutex.hpp"
#include "support/drivers/intercept_driver.hpp"

#include <set>
#include <vector>

namespace vma {

/// Whether the call asks for something that can be refused. Plain questions about the machine, the
/// calling thread or a handle cannot.
bool can_fail(Call call) noexcept;

/// Fails chosen calls, by number, before they reach the driver behind: a failed call did nothing.
///
/// Counted are the calls that can fail, of all threads together, from 0 at the last `fail_calls`.
/// Under a stepped machine the numbers follow from the seed, so that a failure replays.
class FaultDriver final : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;

  /// Starts a new count and fails the calls with these numbers in it. Empty fails none.
  void fail_calls(std::set<int> numbers);
  /// Only these calls are counted from now on, and so only these fail. Empty: every call that can.
  void count_only(std::set<Call> calls);

  /// Calls counted, and how many of them failed, since the last `fail_calls`.
  int counted() const;
  int fired() const;
  /// What was counted, in order: entry n is call number n.
  std::vector<Call> seen() const;
  /// What was failed, of all counts since construction.
  std::set<Call> failed() const;

 private:
  void around(Call call, const std::function<void()>& body) override;
  /// The number of the call if it is to fail, else -1.
  int count(Call call);

  mutable Mutex mutex_;
  std::set<int> numbers_ VMART_GUARDED_BY(mutex_);
  std::set<Call> only_ VMART_GUARDED_BY(mutex_);
  std::vector<Call> seen_ VMART_GUARDED_BY(mutex_);
  std::set<Call> failed_ VMART_GUARDED_BY(mutex_);
  int fired_ VMART_GUARDED_BY(mutex_) = 0;
};

}  // namespace vma
