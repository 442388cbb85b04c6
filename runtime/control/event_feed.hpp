#pragma once

#include "base/mutex.hpp"
#include "base/perfetto_trace.hpp"
#include "control/control_target.hpp"
#include "memory/registry.hpp"
#include "migrate/migration/move_observers.hpp"
#include "placement/planning/decision.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

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

/// Reports what happens in a runtime: turns decisions and the steps of moves into events for the
/// control socket's peers, and into entries of the trace. Any thread, also with locks of lower
/// layers held; never blocks for long.
class EventFeed {
 public:
  /// Requires: both arguments outlive it. `trace` may be null.
  EventFeed(const Registry& registry, PerfettoTrace* trace) : registry_(registry), trace_(trace) {}

  /// Requires: `decision` has its number.
  /// Repeated refusals of an allocation's chunks for one reason are one event with a count.
  void decided(const Decision& decision) noexcept;
  void moved_on(const ChunkStep& step) noexcept;
  /// Adds an operation, a tick, or its end. Operation numbers are unique.
  void add(ControlEvent event) noexcept { static_cast<void>(ring_.add(std::move(event))); }
  std::uint64_t next_operation() noexcept;
  /// Adds to the end of an operation how long work was stopped in total for its chunks, and by what
  /// last, and forgets it.
  void take_stall(ControlEvent& end) noexcept;

  const EventRing& ring() const noexcept { return ring_; }
  /// Entries lost by the trace.
  std::uint64_t trace_lost() const noexcept { return trace_ == nullptr ? 0 : trace_->lost(); }

 private:
  /// A planned move that has not ended; the trace draws an arrow from it.
  struct Planned {
    std::uint64_t number = 0;
    Place to;
  };
  struct Stall {
    std::chrono::nanoseconds time{0};
    StopKind stop = StopKind::none;
  };
  static constexpr std::size_t planned_max = 65'536;

  /// Whether it is the same refusal again, of which the ring has an event.
  bool repeats(const Decision& decision) VMART_REQUIRES(mutex_);
  Address chunk_of(const Decision& decision) const;
  void trace_decision(const Decision& decision, Address chunk);
  std::uint64_t decision_behind(const ChunkStep& step) const;

  const Registry& registry_;
  PerfettoTrace* const trace_;
  EventRing ring_;
  mutable Mutex mutex_;  // Innermost: no other lock is taken while it is held.
  std::map<Address, Planned> planned_ VMART_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Stall> stalls_ VMART_GUARDED_BY(mutex_);
  std::uint64_t last_operation_ VMART_GUARDED_BY(mutex_) = 0;
  RefusalRuns refusals_ VMART_GUARDED_BY(mutex_){RefusalRuns::Of::allocation};
};

}  // namespace vma
