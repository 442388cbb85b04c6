#include "service/scheduler_inbox.hpp"

#include "memory/allocation.hpp"

#include <exception>
#include <utility>

namespace vma {

void SchedulerInbox::post(Event event) noexcept {
  try {
    event.at = clock_.now();
    const MutexLock lock(mutex_);
    events_.push_back(std::move(event));
  } catch (const std::exception&) {
    missed_ = true;
  }
}

void SchedulerInbox::made(const std::shared_ptr<Allocation>& allocation) noexcept {
  post({Event::Kind::made, allocation->begin(), allocation, {}});
}

void SchedulerInbox::freed(Address begin) noexcept {
  post({Event::Kind::freed, begin, {}, {}});
}

void SchedulerInbox::changed(const Allocation& allocation) noexcept {
  post({Event::Kind::changed, allocation.begin(), {}, {}});
}

void SchedulerInbox::stood(const ChunkStep& step) noexcept {
  try {
    const MutexLock lock(mutex_);
    stood_.push_back(step);
  } catch (const std::exception&) {  // A stall that no recording has.
  }
}

std::vector<ChunkStep> SchedulerInbox::take_stood() {
  const MutexLock lock(mutex_);
  return std::exchange(stood_, {});
}

void SchedulerInbox::wake() noexcept {
  const MutexLock lock(wake_mutex_);
  if (wake_) wake_();
}

void SchedulerInbox::wake_with(std::function<void()> wake) {
  const MutexLock lock(wake_mutex_);
  wake_ = std::move(wake);
}

std::vector<SchedulerInbox::Event> SchedulerInbox::take() {
  const MutexLock lock(mutex_);
  return std::exchange(events_, {});
}

}  // namespace vma
