#pragma once

#include "base/mutex.hpp"
#include "control/control_target.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>

namespace vma {

/// The latest events, numbered from 1; new ones replace the oldest. Any thread.
class EventRing {
 public:
  explicit EventRing(std::size_t events_max = 4096) : events_max_(events_max) {}

  /// Gives `event` its sequence number. Only counts it if there is no memory.
  void add(ControlEvent event) noexcept;
  /// As `ControlTarget::events`. For a number in the future it returns nothing, and `next` is the
  /// last number assigned, so that a peer of an earlier process starts anew.
  ControlEvents since(std::uint64_t sequence, std::size_t most) const;
  /// Events that left the ring, or were lost for lack of memory.
  std::uint64_t lost() const;

 private:
  const std::size_t events_max_;
  mutable Mutex mutex_;
  std::deque<ControlEvent> events_ VMART_GUARDED_BY(mutex_);
  std::uint64_t last_ VMART_GUARDED_BY(mutex_) = 0;
  std::uint64_t lost_ VMART_GUARDED_BY(mutex_) = 0;
};

}  // namespace vma
