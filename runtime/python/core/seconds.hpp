#pragma once

#include <vma/error.hpp>

#include <chrono>
#include <string>

namespace vma {

/// Python's times are seconds. Throws: Error{invalid_argument} for what is negative, not finite or
/// more than a year.
template <typename Duration>
Duration duration_of(double value, const char* call, const char* name) {
  using Seconds = std::chrono::duration<double>;
  const Seconds most = std::chrono::hours(24 * 365);
  if (!(value >= 0) || Seconds(value) > most) {
    throw Error(ErrorKind::invalid_argument, call,
                std::string(name) + " is " + std::to_string(value) + " s");
  }
  return std::chrono::ceil<Duration>(Seconds(value));
}

}  // namespace vma
