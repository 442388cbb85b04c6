#include "migrate/stops/stopped_work.hpp"

#include <utility>

namespace vma {

void DarkTimes::alive() {
  if (any_stopped()) stopped_->alive();
}

void DarkTimes::granted() {
  alive();
  granted_ = clock_.now();
}

TimePoint DarkTimes::ask() {
  constexpr std::chrono::milliseconds period(1);
  if (!any_stopped() || dark_) return clock_.now() + period;
  if (clock_.now() - granted_ >= period) {
    keepers_.probe_grant();
    granted();
  }
  return granted_ + period;
}

void DarkTimes::begin() {
  if (!any_stopped() || dark_) return;
  ask();
  stopped_->begin_dark();
  dark_ = true;
}

void DarkTimes::end() noexcept {
  if (!std::exchange(dark_, false)) return;
  stopped_->end_dark();
  stopped_->alive();
}

}  // namespace vma
