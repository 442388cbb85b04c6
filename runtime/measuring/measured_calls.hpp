#pragma once

#include "base/clock.hpp"
#include "machine/machine_description.hpp"

#include <functional>
#include <string>
#include <vector>

namespace vma {

/// Durations of a machine's calls, as far as they were measured; other members of `costs` are
/// unset. One thread.
struct MeasuredCalls {
  CostParameters costs;
  std::vector<std::string> keys;      ///< Keys of the measured costs, as in a machine file.
  std::vector<std::string> failures;  ///< What could not be measured, and why.
  TimePoint deadline = never;         ///< Measurements that have not begun by then are skipped.

  void took(const char* key);
  /// Runs `body`; if it throws, records `what` with the reason. Throws: Error{driver_gone}.
  void attempt(const std::string& what, const std::function<void()>& body);
  /// Throws: Error{busy} after the deadline.
  void require_time(const Clock& clock) const;
};

/// How long `body` takes by the machine's clock, in microseconds.
double timed_us(const Clock& clock, const std::function<void()>& body);

}  // namespace vma
