#include "bench/placement/steps.hpp"

#include <chrono>

namespace vma {

Steps::Steps(std::size_t readers, Clock& clock) : readers_(readers), clock_(clock) {}

bool Steps::finish_share() {
  MutexLock lock(mutex_);
  if (++finished_ == readers_) {
    finished_ = 0;
    ++step_;
    last_ = mark();
    if (!first_) first_ = last_;
    changed_.notify_all();
    return !ended_;
  }
  const std::uint64_t step = step_;
  changed_.wait(lock, [&]() VMART_REQUIRES(mutex_) { return step_ != step || ended_; });
  return !ended_;
}

void Steps::end() {
  const MutexLock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void Steps::begin_look() {
  const MutexLock lock(mutex_);
  look_ = mark();
  first_.reset();
  last_.reset();
}

bool Steps::has_rate() const {
  const MutexLock lock(mutex_);
  return bytes_ > look_.bytes && clock_.now() > look_.at;
}

double Steps::rate() const {
  const MutexLock lock(mutex_);
  const bool whole = first_ && first_->at < last_->at;
  const Mark from = whole ? *first_ : look_, to = whole ? *last_ : mark();
  if (to.at <= from.at) return 0;
  return static_cast<double>(to.bytes - from.bytes) /
         std::chrono::duration<double>(to.at - from.at).count();
}

}  // namespace vma
