#include "measuring/measured_calls.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vma {

void MeasuredCalls::took(const char* key) {
  if (std::ranges::find(keys, key) == keys.end()) keys.emplace_back(key);
}

void MeasuredCalls::attempt(const std::string& what, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::driver_gone) throw;
    failures.push_back(fmt::format("{}: {}", what, error.what()));
  }
}

void MeasuredCalls::require_time(const Clock& clock) const {
  if (clock.now() <= deadline) return;
  throw Error(ErrorKind::busy, "machine probe", "the time limit was reached");
}

double timed_us(const Clock& clock, const std::function<void()>& body) {
  const TimePoint start = clock.now();
  body();
  return static_cast<double>((clock.now() - start).count()) / 1e3;
}

}  // namespace vma
