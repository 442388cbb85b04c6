#include "migrate/watchdog.hpp"

#include "base/check.hpp"

#include <utility>

namespace vma {

Watchdog::Watchdog(Driver& driver) : driver_(driver) {
  task_ = driver.executor().spawn("vmart watchdog", [this] { run(); });
}

Watchdog::~Watchdog() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  task_->join();
}

void Watchdog::arm(TimePoint deadline, std::function<void()> late) {
  const MutexLock lock(mutex_);
  VMART_CHECK(!late_, "one hold is closed at a time");
  deadline_ = deadline;
  late_ = std::move(late);
  changed_.notify_all();
}

void Watchdog::disarm() noexcept {
  const MutexLock lock(mutex_);
  late_ = nullptr;
  deadline_ = never;
  changed_.notify_all();
}

void Watchdog::run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    const TimePoint deadline = deadline_;
    const auto changed = [&]() VMART_NO_THREAD_ANALYSIS {
      return stopping_ || deadline_ != deadline;
    };
    if (changed_.wait_until(lock, driver_.clock(), deadline, changed)) continue;
    if (late_) late_();
    late_ = nullptr;
    deadline_ = never;
  }
}

}  // namespace vma
