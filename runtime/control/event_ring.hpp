#pragma once

#include "base/mutex.hpp"
#include "control/control_target.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>

namespace vma {

/// The latest events, numbered from 1. New events replace the oldest. Any thread.
class EventRing {
 public:
  explicit EventRing(std::size_t events_max = 4096) : events_max_(events_max) {}

  /// Gives `event` its sequence number and returns it. If there is no memory, only counts the event
  /// and returns 0.
  std::uint64_t add(ControlEvent event) noexcept;
  /// The event has occurred once more. False if it has left the ring.
  bool repeat(std::uint64_t sequence) noexcept;
  /// See `ControlTarget::events`. If the number is in the future, returns no events and the last
  /// number assigned as `next`, so that a peer that talked to an earlier process starts over.
  ControlEvents since(std::uint64_t sequence, std::size_t most) const;
  /// Number of events that left the ring or were lost for lack of memory.
  std::uint64_t lost() const;

 private:
  const std::size_t events_max_;
  mutable Mutex mutex_;
  std::deque<ControlEvent> events_ VMART_GUARDED_BY(mutex_);
  std::uint64_t last_ VMART_GUARDED_BY(mutex_) = 0;
  std::uint64_t lost_ VMART_GUARDED_BY(mutex_) = 0;
};

}  // namespace vma
