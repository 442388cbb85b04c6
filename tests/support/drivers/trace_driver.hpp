#pragma once

#include "base/mutex.hpp"
#include "support/drivers/intercept_driver.hpp"

#include <string>
#include <vector>

namespace vma {

/// One call of a trace, with times of the driver's clock.
struct TracedCall {
  Call call{};
  TimePoint start{};
  TimePoint duration{};
  int thread = 0;  ///< The operating system's thread id.
  bool threw = false;
};

/// Records every call: what, when, how long, on which thread. Keeps the newest ones.
class TraceDriver final : public InterceptDriver {
 public:
  /// Requires: `calls_max` > 0. Only the newest `calls_max` calls are kept.
  TraceDriver(std::unique_ptr<Driver> inner, std::size_t calls_max);
  TraceDriver(Driver& inner, std::size_t calls_max);

  /// Oldest first, in the order in which the calls returned.
  std::vector<TracedCall> calls() const;
  /// The number of calls no longer kept.
  std::size_t forgotten() const;
  void clear();
  /// One line per call: start and duration in microseconds, thread, name.
  std::string to_text() const;

 private:
  void around(Call call, const std::function<void()>& body) override;
  void keep(const TracedCall& call);

  const std::size_t calls_max_;  // Constant after construction.
  mutable Mutex mutex_;
  std::vector<TracedCall> ring_ VMART_GUARDED_BY(mutex_);
  // Calls since `clear`, including those no longer kept.
  std::size_t returned_ VMART_GUARDED_BY(mutex_) = 0;
};

}  // namespace vma
