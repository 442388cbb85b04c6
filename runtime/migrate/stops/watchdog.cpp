#include "migrate/stops/watchdog.hpp"

#include <algorithm>
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

Watchdog::Ticket Watchdog::arm(TimePoint deadline, std::function<void()> late) {
  return arm_repeatedly(deadline, [once = std::move(late)] {
    once();
    return never;
  });
}

Watchdog::Ticket Watchdog::arm_repeatedly(TimePoint deadline, std::function<TimePoint()> late) {
  const MutexLock lock(mutex_);
  const Ticket ticket{++last_ticket_};
  armed_.emplace(ticket, Armed{deadline, std::move(late)});
  changed_.notify_all();
  return ticket;
}

void Watchdog::rearm(Ticket ticket, TimePoint deadline) noexcept {
  const MutexLock lock(mutex_);
  const auto found = armed_.find(ticket);
  if (found == armed_.end()) return;
  const bool sooner = deadline < found->second.deadline;
  found->second.deadline = deadline;
  // A later deadline makes the thread wake in vain once, which costs less than a signal here.
  if (sooner) changed_.notify_all();
}

void Watchdog::disarm(Ticket ticket) noexcept {
  const MutexLock lock(mutex_);
  if (armed_.erase(ticket) > 0) changed_.notify_all();
}

TimePoint Watchdog::earliest() const {
  TimePoint first = never;
  for (const auto& [ticket, armed] : armed_) first = std::min(first, armed.deadline);
  return first;
}

/// Called with the lock held, so that `disarm` waits for it.
void Watchdog::run_late() {
  const TimePoint now = driver_.clock().now();
  for (auto it = armed_.begin(); it != armed_.end();) {
    if (it->second.deadline > now) {
      ++it;
      continue;
    }
    it->second.deadline = it->second.late();
    if (it->second.deadline == never) {
      it = armed_.erase(it);
    } else {
      ++it;
    }
  }
}

void Watchdog::run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    const TimePoint deadline = earliest();
    const auto changed = [&]() VMART_NO_THREAD_ANALYSIS {
      return stopping_ || earliest() != deadline;
    };
    if (!changed_.wait_until(lock, driver_.clock(), deadline, changed)) run_late();
  }
}

}  // namespace vma
