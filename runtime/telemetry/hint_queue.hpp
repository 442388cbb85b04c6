#pragma once

#include "base/clock.hpp"
#include "base/ids.hpp"
#include "base/mutex.hpp"

#include <vma/telemetry.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace vma {

/// A hint, its range, and when it was given; the hint's times are relative to that.
struct AdvisedRange {
  Address address{};
  std::uint64_t bytes = 0;
  Hint hint;
  TimePoint at{0};
};

/// Passes hints from any thread to one thread, in order. Bounded: a new hint displaces the oldest.
class HintQueue {
 public:
  explicit HintQueue(std::size_t max) : max_(max) {}

  /// Calls the function set by `wake_with`, with no lock held. Throws: std::bad_alloc.
  void push(const AdvisedRange& advised);
  /// Moves all hints to the end of `out`.
  void take(std::vector<AdvisedRange>& out);
  /// Sets the function that `push` calls. It must not throw, and may be empty. Blocks: while a call
  /// of the previous function runs; that function is not called afterwards. Requires: the caller is
  /// not inside such a call.
  void wake_with(std::function<void()> wake);
  /// The number of displaced hints.
  std::uint64_t dropped() const;

 private:
  const std::size_t max_;
  mutable Mutex mutex_;
  Condition called_;
  std::deque<AdvisedRange> hints_ VMART_GUARDED_BY(mutex_);
  std::uint64_t dropped_ VMART_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const std::function<void()>> wake_ VMART_GUARDED_BY(mutex_);
  int calling_ VMART_GUARDED_BY(mutex_) = 0;
};

}  // namespace vma
