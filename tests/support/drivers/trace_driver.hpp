#pragma once

#include "base/mutex.hpp"
#include "support/drivers/intercept_driver.hpp"

#include <string>
#include <vector>

namespace vma {

/// One call of a trace, by the driver's clock.
struct TracedCall {
  Call call{};
  TimePoint start{};
  TimePoint duration{};
  int thread = 0;  ///< The operating system's number.
  bool threw = false;
};

/// Records every call: what, when, how long, on which thread. Keeps the newest.
class TraceDriver final : public InterceptDriver {
 public:
  /// Requires: `calls_max` > 0; older calls than that many are forgotten.
  TraceDriver(std::unique_ptr<Driver> inner, std::size_t calls_max);
  TraceDriver(Driver& inner, std::size_t calls_max);

  /// Oldest first, in the order in which the calls returned.
  std::vector<TracedCall> calls() const;
  /// Calls that are no longer kept.
  std::size_t forgotten() const;
  void clear();
  /// One line a call: start and duration in microseconds, thread, name.
  std::string to_text() const;

 private:
  void around(Call call, const std::function<void()>& body) override;
  void keep(const TracedCall& call);

  const std::size_t calls_max_;  // Constant after construction.
  mutable Mutex mutex_;
  std::vector<TracedCall> ring_ VMART_GUARDED_BY(mutex_);
  std::size_t returned_ VMART_GUARDED_BY(mutex_) = 0;  // Calls since `clear`, forgotten ones too.
};

}  // namespace vma
