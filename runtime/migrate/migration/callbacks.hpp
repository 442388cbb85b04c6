#pragma once

#include "base/mutex.hpp"
#include "driver/driver.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>

namespace vma {

/// Runs users' callbacks one after the other on its own thread, the completion thread, so that they
/// never delay a move. The thread starts with the first move in the background, or with the first
/// callback. Any thread may post.
class Callbacks {
 public:
  explicit Callbacks(Driver& driver) : driver_(driver) {}
  ~Callbacks() { stop(); }

  /// Preallocated, so that posting them needs no memory.
  using Posts = std::list<std::function<void()>>;

  /// Starts the thread. Throws: what `Executor::spawn` throws.
  void start();
  /// They run in order; after `stop` on the calling thread. What they throw is logged and counted.
  /// Requires: `start` has returned.
  void post(Posts callbacks) noexcept;
  /// Starts the thread if needed. Throws: as `start`, std::bad_alloc; then nothing is posted.
  void post(std::function<void()> callback);
  /// Blocks: until all that was posted by now has run; not from inside one of these callbacks,
  /// where it returns at once.
  void await_posted();
  /// Whether this thread is inside a callback of any runtime.
  static bool runs_here() noexcept;
  /// Counts a callback or hook that threw elsewhere.
  void count_failures(std::uint64_t count) noexcept { failed_ += count; }
  std::uint64_t failed() const noexcept { return failed_; }
  /// Runs what was posted, then ends the thread. Not from a callback.
  void stop() noexcept;

 private:
  void run() VMART_NO_THREAD_ANALYSIS;
  void call(const std::function<void()>& callback) noexcept;

  Driver& driver_;
  Mutex mutex_;
  Condition changed_;
  Posts queue_ VMART_GUARDED_BY(mutex_);
  std::uint64_t posted_ VMART_GUARDED_BY(mutex_) = 0, run_ VMART_GUARDED_BY(mutex_) = 0;
  bool stopping_ VMART_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Task> task_ VMART_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> failed_{0};
};

/// The callbacks of a call that waits: they may refer to what its caller has on its stack, so all
/// have run when this ends. One thread.
class AwaitedCallbacks {
 public:
  /// Starts the thread, if there will be any. Throws: as `Callbacks::start`.
  AwaitedCallbacks(Callbacks& callbacks, bool any) : callbacks_(callbacks), any_(any) {
    if (any_) callbacks_.start();
  }
  ~AwaitedCallbacks() {
    if (any_) callbacks_.await_posted();
  }
  AwaitedCallbacks(const AwaitedCallbacks&) = delete;
  AwaitedCallbacks& operator=(const AwaitedCallbacks&) = delete;

 private:
  Callbacks& callbacks_;
  const bool any_;
};

}  // namespace vma
