#pragma once

#include "base/clock.hpp"

#include <condition_variable>
#include <mutex>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#include <sanitizer/tsan_interface.h>
#define VMART_UNDER_TSAN
#endif
#endif

// Clang checks which locks are held; other compilers ignore the annotations.
#if defined(__clang__)
#define VMART_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define VMART_THREAD_ATTRIBUTE(x)
#endif
#define VMART_CAPABILITY VMART_THREAD_ATTRIBUTE(capability("mutex"))
#define VMART_GUARDED_BY(mutex) VMART_THREAD_ATTRIBUTE(guarded_by(mutex))
#define VMART_REQUIRES(mutex) VMART_THREAD_ATTRIBUTE(requires_capability(mutex))
#define VMART_ACQUIRE(...) VMART_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define VMART_RELEASE(...) VMART_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define VMART_SCOPED_CAPABILITY VMART_THREAD_ATTRIBUTE(scoped_lockable)
#define VMART_NO_THREAD_ANALYSIS VMART_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace vma {

/// A mutex that a stepped machine can schedule. Not recursive.
class VMART_CAPABILITY Mutex {
 public:
#if defined(VMART_UNDER_TSAN)
  // Nothing tells TSan of the end of a std::mutex: one at the same place of the stack would be
  // taken for the same, with the order in which that was locked.
  Mutex() { __tsan_mutex_destroy(native_.native_handle(), 0); }
#endif
  void lock() VMART_ACQUIRE() VMART_NO_THREAD_ANALYSIS;
  /// Returns false if another thread holds it.
  bool try_lock() VMART_NO_THREAD_ANALYSIS { return native_.try_lock(); }
  void unlock() VMART_RELEASE() VMART_NO_THREAD_ANALYSIS { native_.unlock(); }

  /// Whether no thread holds it at this moment. Only for a stepper.
  bool is_free() VMART_NO_THREAD_ANALYSIS;

 private:
  friend class Condition;
  std::mutex native_;
};

/// Holds a mutex during its life; may release and reacquire it in between.
class VMART_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) VMART_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() VMART_RELEASE() VMART_NO_THREAD_ANALYSIS {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() VMART_RELEASE() VMART_NO_THREAD_ANALYSIS {
    mutex_.unlock();
    held_ = false;
  }
  void lock() VMART_ACQUIRE() VMART_NO_THREAD_ANALYSIS {
    mutex_.lock();
    held_ = true;
  }

 private:
  friend class Condition;
  Mutex& mutex_;
  bool held_ = true;
};

/// A condition variable for `Mutex`. Every blocking wait of the runtime is either one of these, or
/// a wait for a lock, for the end of a thread, or for a driver's event.
class Condition {
 public:
  template <typename Ready>
  void wait(MutexLock& lock, Ready ready) VMART_NO_THREAD_ANALYSIS;

  /// Returns the last result of `ready`; false if `deadline` passed first.
  template <typename Ready>
  bool wait_until(MutexLock& lock, Clock& clock, TimePoint deadline,
                  Ready ready) VMART_NO_THREAD_ANALYSIS;

  void notify_all() noexcept { native_.notify_all(); }

 private:
  template <typename Ready>
  static bool wait_stepped(Stepper& stepper, MutexLock& lock, TimePoint deadline,
                           Ready& ready) VMART_NO_THREAD_ANALYSIS;
  std::condition_variable native_;
};

template <typename Ready>
bool Condition::wait_stepped(Stepper& stepper, MutexLock& lock, TimePoint deadline, Ready& ready) {
  Mutex& mutex = lock.mutex_;
  while (!ready()) {
    lock.unlock();
    const bool in_time = stepper.wait(
        [&]() VMART_NO_THREAD_ANALYSIS { return mutex.is_free() && ready(); }, deadline);
    lock.lock();
    if (!in_time) return ready();
  }
  return true;
}

template <typename Ready>
void Condition::wait(MutexLock& lock, Ready ready) {
  if (Stepper* stepper = Stepper::current()) {
    wait_stepped(*stepper, lock, never, ready);
    return;
  }
  std::unique_lock<std::mutex> native(lock.mutex_.native_, std::adopt_lock);
  native_.wait(native, ready);
  native.release();
}

template <typename Ready>
bool Condition::wait_until(MutexLock& lock, Clock& clock, TimePoint deadline, Ready ready) {
  if (deadline == never) return wait(lock, ready), true;
  if (Stepper* stepper = Stepper::current()) return wait_stepped(*stepper, lock, deadline, ready);
  std::unique_lock<std::mutex> native(lock.mutex_.native_, std::adopt_lock);
  const bool in_time = native_.wait_until(native, clock.wake_time(deadline), ready);
  native.release();
  if (!in_time) clock.waited(deadline);
  return in_time;
}

}  // namespace vma
