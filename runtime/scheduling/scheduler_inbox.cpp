#include "scheduling/scheduler_inbox.hpp"

#include "memory/allocation.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

namespace vma {

void SchedulerInbox::post(Event event) noexcept {
  try {
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

void SchedulerInbox::stepped(const ChunkStep& step) noexcept {
  using Kind = ChunkStep::Kind;
  const bool moved = step.kind == Kind::moved || step.kind == Kind::restored;
  if (step.kind != Kind::stopped && (!moved || step.by_policy)) return;
  // Without the reason, so that copying cannot throw.
  post({Event::Kind::step, step.address, {}, step});
}

void SchedulerInbox::wake() noexcept {
  const MutexLock lock(wake_mutex_);
  if (wake_) wake_();
}

void SchedulerInbox::wake_with(std::function<void()> wake) {
  const MutexLock lock(wake_mutex_);
  wake_ = std::move(wake);
}

void SchedulerInbox::take(std::vector<Event>& events) {
  const MutexLock lock(mutex_);
  events.reserve(events.size() + events_.size());
  std::ranges::move(events_, std::back_inserter(events));
  events_.clear();
}

}  // namespace vma
