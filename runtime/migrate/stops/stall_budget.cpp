#include "migrate/stops/stall_budget.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>
#include <new>

namespace vma {
namespace {

constexpr double second_ns = 1e9;
constexpr std::chrono::seconds window(1);
// Otherwise a stall of half an hour would have to be paid for by a century, past the end of time.
constexpr double pause_max_ns = 3600 * second_ns;
constexpr std::chrono::hours stall_max(1);

/// How much of the stop lies in the second before `now`.
std::chrono::nanoseconds used_of(TimePoint begin, TimePoint end, TimePoint now) {
  return std::max(std::chrono::nanoseconds(0), std::min(end, now) - std::max(begin, now - window));
}

/// When a pause of that length is over; pauses add up.
TimePoint paid_by(TimePoint next, TimePoint spent_at, double pause_ns) {
  const double rounded = std::ceil(std::clamp(pause_ns, 0.0, pause_max_ns));
  return std::max(next, spent_at) + TimePoint(static_cast<TimePoint::rep>(rounded));
}

}  // namespace

StallBudget::StallBudget(std::chrono::nanoseconds stall_per_second, std::uint64_t bytes_per_second)
    : stall_per_second_(stall_per_second),
      pause_per_stall_(stall_per_second.count() == 0
                           ? 0
                           : second_ns / static_cast<double>(stall_per_second.count())),
      nanoseconds_per_byte_(
          bytes_per_second == 0 ? 0 : second_ns / static_cast<double>(bytes_per_second)) {
  VMART_CHECK(stall_per_second.count() >= 0, "a stop cannot have a negative duration");
}

void StallBudget::allow_ahead(std::chrono::nanoseconds stall) {
  const MutexLock lock(mutex_);
  ahead_ = stall;
}

TimePoint StallBudget::next_stop(TimePoint now) const {
  const MutexLock lock(mutex_);
  return stop_after(now);
}

TimePoint StallBudget::stop_after(TimePoint now) const {
  if (pause_per_stall_ == 0) return now;
  const TimePoint earliest =
      paid_by_ == TimePoint::min() ? now : std::max(now, paid_by_ - debt_max());
  return window_allows(earliest);
}

/// How long paying may take at most: a burst is paid for within a second, and longer only by what
/// may be spent ahead.
std::chrono::nanoseconds StallBudget::debt_max() const {
  const double ahead_ns = pause_per_stall_ * static_cast<double>(ahead_.count());
  return window + std::chrono::nanoseconds(std::llround(std::min(pause_max_ns, ahead_ns)));
}

/// In the second before.
std::chrono::nanoseconds StallBudget::used_before(TimePoint now) const {
  std::chrono::nanoseconds used(0);
  for (const Stop& stop : recent_) used += used_of(stop.begin, stop.end, now);
  return used;
}

TimePoint StallBudget::window_allows(TimePoint now) const {
  std::chrono::nanoseconds excess = used_before(now) - stall_per_second_ - ahead_;
  if (excess <= std::chrono::nanoseconds(0)) return now;
  // The window leaves the oldest stops behind, until what is left fits.
  for (const Stop& stop : recent_) {
    const std::chrono::nanoseconds used = used_of(stop.begin, stop.end, now);
    if (used >= excess) return std::max(stop.begin, now - window) + excess + window;
    excess -= used;
  }
  return now;
}

void StallBudget::spent_stall(TimePoint began, std::chrono::nanoseconds stall) noexcept {
  if (pause_per_stall_ == 0) return;
  const MutexLock lock(mutex_);
  stall = std::min<std::chrono::nanoseconds>(stall, stall_max);
  paid_by_ = paid_by(paid_by_, began, pause_per_stall_ * static_cast<double>(stall.count()));
  const TimePoint end = began + stall;
  while (!recent_.empty() && recent_.front().end < end - 2 * window) recent_.pop_front();
  try {
    recent_.push_back({began, end});
  } catch (const std::bad_alloc&) {  // Counts the time since the stop before it as well.
    if (!recent_.empty()) recent_.back().end = std::max(recent_.back().end, end);
  }
}

TimePoint StallBudget::next_copy(TimePoint now, std::chrono::nanoseconds estimate) const {
  const MutexLock lock(mutex_);
  return std::max(copy_after(now), stop_after(now) - estimate);
}

TimePoint StallBudget::copy_after(TimePoint now) const {
  return std::max(now, next_copy_);
}

bool StallBudget::try_book_copy(TimePoint now, std::uint64_t size_bytes) {
  const MutexLock lock(mutex_);
  if (copy_after(now) > now) return false;
  if (nanoseconds_per_byte_ == 0) return true;
  next_copy_ = paid_by(next_copy_, now, nanoseconds_per_byte_ * static_cast<double>(size_bytes));
  return true;
}

}  // namespace vma
