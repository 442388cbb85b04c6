#include "telemetry/hint_queue.hpp"

#include <utility>

namespace vma {

void HintQueue::push(const AdvisedRange& advised) {
  MutexLock lock(mutex_);
  hints_.push_back(advised);
  if (hints_.size() > max_) {
    hints_.pop_front();
    ++dropped_;
  }
  const std::shared_ptr<const std::function<void()>> wake = wake_;
  if (!wake) return;
  ++calling_;
  lock.unlock();
  (*wake)();
  lock.lock();
  if (--calling_ == 0) called_.notify_all();
}

void HintQueue::take(std::vector<AdvisedRange>& out) {
  const MutexLock lock(mutex_);
  out.insert(out.end(), hints_.begin(), hints_.end());
  hints_.clear();
}

void HintQueue::wake_with(std::function<void()> wake) {
  std::shared_ptr<const std::function<void()>> next;
  if (wake) next = std::make_shared<const std::function<void()>>(std::move(wake));
  MutexLock lock(mutex_);
  wake_ = nullptr;
  called_.wait(lock, [this]() VMART_REQUIRES(mutex_) { return calling_ == 0; });
  wake_ = std::move(next);
}

std::uint64_t HintQueue::dropped() const {
  const MutexLock lock(mutex_);
  return dropped_;
}

}  // namespace vma
