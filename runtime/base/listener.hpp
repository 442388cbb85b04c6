#pragma once

#include "base/mutex.hpp"

#include <atomic>
#include <memory>
#include <utility>

namespace vma {

/// An optional listener from a layer above; initially none. Any thread. Without a listener, `tell`
/// costs one atomic read.
template <typename T>
class Listener {
 public:
  /// Null removes the listener. `listener` must not be shared. After this call returns, the
  /// previous listener is not called any more. Blocks: while another thread is calling that
  /// listener; so do not call this function from a listener.
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
  /// Listeners' use counts change only under the mutex, so that `set` can rely on them.
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
