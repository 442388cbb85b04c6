#include "migrate/gates/stall_budget.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>

namespace vma {
namespace {

constexpr double second_ns = 1e9;
// Otherwise a stall of half an hour would have to be paid for by a century, past the end of time.
constexpr double pause_max_ns = 3600 * second_ns;

/// When a pause of that length is over; pauses add up.
TimePoint paid_by(TimePoint next, TimePoint spent_at, double pause_ns) {
  const double rounded = std::ceil(std::clamp(pause_ns, 0.0, pause_max_ns));
  return std::max(next, spent_at) + TimePoint(static_cast<TimePoint::rep>(rounded));
}

}  // namespace

StallBudget::StallBudget(std::chrono::nanoseconds stall_per_second, std::uint64_t bytes_per_second)
    : pause_per_stall_(stall_per_second.count() == 0
                           ? 0
                           : second_ns / static_cast<double>(stall_per_second.count())),
      nanoseconds_per_byte_(
          bytes_per_second == 0 ? 0 : second_ns / static_cast<double>(bytes_per_second)) {
  VMART_CHECK(stall_per_second.count() >= 0, "a stop cannot have a negative duration");
}

TimePoint StallBudget::next_stop(TimePoint now) const {
  return std::max(now, next_stop_);
}

void StallBudget::spent_stall(TimePoint began, std::chrono::nanoseconds stall) {
  // From "may stop" to the first stopped stream it takes a while, which does not count as stall.
  constexpr std::chrono::milliseconds late_max(1);
  if (pause_per_stall_ == 0) return;
  next_stop_ =
      paid_by(next_stop_, began - late_max, pause_per_stall_ * static_cast<double>(stall.count()));
}

TimePoint StallBudget::next_copy(TimePoint now) const {
  return std::max(now, next_copy_);
}

void StallBudget::spent_bytes(TimePoint at, std::uint64_t bytes) {
  if (nanoseconds_per_byte_ == 0) return;
  next_copy_ = paid_by(next_copy_, at, nanoseconds_per_byte_ * static_cast<double>(bytes));
}

}  // namespace vma
