#pragma once

#include "base/mutex.hpp"

#include <atomic>
#include <memory>
#include <utility>

namespace vma {

/// Who is told of something, or asked: somebody of the layers above, or nobody, as at first. Any
/// thread. Where nobody listens, telling costs one atomic read.
template <typename T>
class Listener {
 public:
  /// Null is nobody. Nobody else may share it. On return the former one is told nothing any more.
  /// Blocks: while it is being told on another thread; so not from inside it.
  void set(std::shared_ptr<T> listener) {
    MutexLock lock(mutex_);
    current_.swap(listener);
    listened_ = current_ != nullptr;
    told_.wait(lock, [&] { return listener.use_count() <= 1; });
  }

  bool any() const noexcept { return listened_; }

  /// Runs `body(listener)` if somebody listens, with no lock held.
  template <typename Body>
  void tell(Body&& body) {
    if (!any()) return;
    Call call(*this);
    if (call.listener) body(*call.listener);
  }

 private:
  /// The count of a listener changes under the mutex, so that `set` can trust it.
  struct Call {
    explicit Call(Listener& owner) : owner(owner) {
      const MutexLock lock(owner.mutex_);
      listener = owner.current_;
    }
    ~Call() {
      const MutexLock lock(owner.mutex_);
      listener.reset();
      owner.told_.notify_all();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    Listener& owner;
    std::shared_ptr<T> listener;
  };

  Mutex mutex_;
  Condition told_;
  std::shared_ptr<T> current_ VMART_GUARDED_BY(mutex_);
  std::atomic<bool> listened_{false};
};

}  // namespace vma
