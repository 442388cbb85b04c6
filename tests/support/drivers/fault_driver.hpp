#pragma once

#include "base/mutex.hpp"
#include "support/drivers/intercept_driver.hpp"

#include <set>
#include <vector>

namespace vma {

/// Whether the call requests something that can be refused. Plain queries about the machine, the
/// calling thread or a handle cannot fail.
bool can_fail(Call call) noexcept;

/// Fails chosen calls, by number, before they reach the inner driver: a failed call has no effect.
///
/// Counts the calls that can fail, of all threads together, from 0 at the last `fail_calls`. On a
/// stepped machine the numbers depend only on the seed, so that failures replay.
class FaultDriver final : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;

  /// Starts a new count and fails the calls with these numbers. An empty set fails none.
  void fail_calls(std::set<int> numbers);
  /// From now on only these calls are counted and can fail. Empty: all calls that can fail.
  void count_only(std::set<Call> calls);

  /// The calls counted, and how many of them failed, since the last `fail_calls`.
  int counted() const;
  int fired() const;
  /// The counted calls in order: entry n is call number n.
  std::vector<Call> seen() const;
  /// The calls failed in all counts since construction.
  std::set<Call> failed() const;

 private:
  void around(Call call, const std::function<void()>& body) override;
  /// The number of the call if it is to fail, otherwise -1.
  int count(Call call);

  mutable Mutex mutex_;
  std::set<int> numbers_ VMART_GUARDED_BY(mutex_);
  std::set<Call> only_ VMART_GUARDED_BY(mutex_);
  std::vector<Call> seen_ VMART_GUARDED_BY(mutex_);
  std::set<Call> failed_ VMART_GUARDED_BY(mutex_);
  int fired_ VMART_GUARDED_BY(mutex_) = 0;
};

}  // namespace vma
