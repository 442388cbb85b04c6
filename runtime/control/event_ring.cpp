#include "control/event_ring.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace vma {

std::uint64_t EventRing::add(ControlEvent event) noexcept {
  MutexLock lock(mutex_);
  event.sequence = last_ + 1;
  try {
    events_.push_back(std::move(event));
  } catch (const std::bad_alloc&) {
    ++lost_;
    return 0;
  }
  ++last_;
  if (events_.size() > events_max_) {
    events_.pop_front();
    ++lost_;
  }
  return last_;
}

bool EventRing::repeat(std::uint64_t sequence) noexcept {
  MutexLock lock(mutex_);
  if (events_.empty() || sequence < events_.front().sequence || sequence > last_) return false;
  // Sequence numbers in the ring are consecutive.
  ++events_[static_cast<std::size_t>(sequence - events_.front().sequence)].times;
  return true;
}

ControlEvents EventRing::since(std::uint64_t sequence, std::size_t most) const {
  MutexLock lock(mutex_);
  ControlEvents answer;
  answer.next = last_;
  if (sequence >= last_ || events_.empty()) return answer;
  // Sequence numbers in the ring are consecutive.
  const std::uint64_t first = events_.front().sequence;
  if (sequence + 1 < first) answer.lost = first - sequence - 1;
  const std::uint64_t skipped = sequence + 1 > first ? sequence + 1 - first : 0;
  const auto begin = events_.begin() + static_cast<std::ptrdiff_t>(skipped);
  const auto count = std::min<std::size_t>(static_cast<std::size_t>(events_.end() - begin), most);
  answer.events.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  if (!answer.events.empty()) answer.next = answer.events.back().sequence;
  return answer;
}

std::uint64_t EventRing::lost() const {
  MutexLock lock(mutex_);
  return lost_;
}

}  // namespace vma
