#include "migrate/gates/pace.hpp"

#include <algorithm>

namespace vma {

Pace::Pace(std::chrono::nanoseconds stall_per_second, std::uint64_t bytes_per_second)
    : budget_(stall_per_second, bytes_per_second) {}

TimePoint Pace::next_copy(TimePoint now, std::chrono::nanoseconds estimate) const {
  const MutexLock lock(mutex_);
  return std::max(budget_.next_copy(now), budget_.next_stop(now) - estimate);
}

bool Pace::try_book_copy(TimePoint now, std::uint64_t size_bytes) {
  const MutexLock lock(mutex_);
  if (budget_.next_copy(now) > now) return false;
  budget_.spent_bytes(now, size_bytes);
  return true;
}

TimePoint Pace::next_stop(TimePoint now) const {
  const MutexLock lock(mutex_);
  return budget_.next_stop(now);
}

void Pace::allow_ahead(std::chrono::nanoseconds stall) {
  const MutexLock lock(mutex_);
  budget_.allow_ahead(stall);
}

void Pace::spent_stall(TimePoint began, std::chrono::nanoseconds stall) noexcept {
  const MutexLock lock(mutex_);
  budget_.spent_stall(began, stall);
}

}  // namespace vma
