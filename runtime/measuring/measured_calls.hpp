#pragma once

#include "base/clock.hpp"
#include "machine/machine_description.hpp"

#include <functional>
#include <string>
#include <vector>

namespace vma {

/// What a machine's calls take, as far as it was measured: the other members of `costs` are
/// nothing. One thread.
struct MeasuredCalls {
  CostParameters costs;
  std::vector<std::string> keys;      ///< Of what was measured, as a machine file names it.
  std::vector<std::string> failures;  ///< What could not be measured, and why.
  TimePoint deadline = never;         ///< What has not had its turn by then is left out.

  void took(const char* key);
  /// Runs `body`; where it throws, `what` is named with the reason. Throws: Error{driver_gone}.
  void attempt(const std::string& what, const std::function<void()>& body);
  /// Throws: Error{busy} past the deadline.
  void require_time(const Clock& clock) const;
};

/// Microseconds of the machine's clock that `body` takes.
double timed_us(const Clock& clock, const std::function<void()>& body);

}  // namespace vma
