#include "recording/block_queue.hpp"

#include "base/check.hpp"

#include <utility>

namespace vma {

BlockQueue::BlockQueue(Executor& executor, const std::string& name, BlockSink& sink,
                       std::size_t blocks_max)
    : sink_(sink), blocks_max_(blocks_max) {
  VMART_CHECK(blocks_max > 0, "a queue has room for at least one block");
  thread_ = executor.spawn(name, [this] { work(); });
}

BlockQueue::~BlockQueue() {
  close();
}

void BlockQueue::offer(DiskBlock block) noexcept {
  const Loss loss{block.records, 1};
  const MutexLock lock(mutex_);
  try {
    if (!closed_ && waiting_.size() < blocks_max_) {
      waiting_.push_back(std::move(block));
      changed_.notify_all();
      return;
    }
  } catch (const std::bad_alloc&) {  // Dropped, like a block that does not fit.
  }
  dropped_ += loss;
  untold_ += loss;
}

bool BlockQueue::flush_until(TimePoint deadline) {
  SteadyClock clock;
  MutexLock lock(mutex_);
  return changed_.wait_until(lock, clock, deadline, [this]() VMART_NO_THREAD_ANALYSIS {
    return waiting_.empty() && !writing_;
  });
}

void BlockQueue::close() noexcept {
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  if (thread_ == nullptr) return;
  thread_->join();
  thread_.reset();
}

Loss BlockQueue::dropped() const {
  const MutexLock lock(mutex_);
  return dropped_;
}

/// Does not hold the lock while the sink writes.
void BlockQueue::work() {
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this]() VMART_NO_THREAD_ANALYSIS { return !waiting_.empty() || closed_; });
    if (waiting_.empty()) break;
    const DiskBlock block = std::move(waiting_.front());
    waiting_.pop_front();
    const Loss lost = std::exchange(untold_, Loss{});
    writing_ = true;
    lock.unlock();
    sink_.write(block, lost);
    lock.lock();
    writing_ = false;
    changed_.notify_all();
  }
  const Loss lost = std::exchange(untold_, Loss{});
  lock.unlock();
  sink_.finish(lost);
}

}  // namespace vma
