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

/// A hint, the range that it is of, and when it was given: its times count from there.
struct AdvisedRange {
  Address address{};
  std::uint64_t bytes = 0;
  Hint hint;
  TimePoint at{0};
};

/// Hints on their way from any thread to one, in order. Bounded: a new one drives the oldest out.
class HintQueue {
 public:
  explicit HintQueue(std::size_t max) : max_(max) {}

  /// Calls what `wake_with` has set, with no lock held. Throws: std::bad_alloc.
  void push(const AdvisedRange& advised);
  /// Appends them all.
  void take(std::vector<AdvisedRange>& out);
  /// `wake` must not throw, and may be empty. Blocks: while a call of the one before goes on;
  /// nobody calls that any more then. Requires: the caller is not in such a call.
  void wake_with(std::function<void()> wake);
  /// That were driven out.
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
