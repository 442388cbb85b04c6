#pragma once

#include "base/mutex.hpp"

#include <atomic>
#include <memory>
#include <utility>

namespace vma {

/// An optional listener from the layers above; none at first. Any thread. Without a listener,
/// `tell` costs one atomic read.
template <typename T>
class Listener {
 public:
  /// Null removes the listener. It must not be shared. After this returns the former one is no
  /// longer called. Blocks: while it is being called on another thread; so do not call this from
  /// inside it.
  void set(std::shared_ptr<T> listener) {
    MutexLock lock(mutex_);
    current_.swap(listener);
    listened_ = current_ != nullptr;
    told_.wait(lock, [&] { return listener.use_count() <= 1; });
  }

  bool any() const noexcept { return listened_; }

  /// Runs `body(listener)` if there is a listener, with no lock held.
  template <typename Body>
  void tell(Body&& body) {
    if (!any()) return;
    Call call(*this);
    if (call.listener) body(*call.listener);
  }

 private:
  /// The use count of a listener changes under the mutex, so that `set` can rely on it.
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
