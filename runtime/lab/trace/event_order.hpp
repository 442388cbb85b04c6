#pragma once

#include "lab/trace/trace_audit.hpp"
#include "lab/trace/trace_event.hpp"
#include "lab/trace/trace_sink.hpp"

#include <cstdint>
#include <queue>
#include <span>
#include <string_view>
#include <vector>

namespace vma {

/// Sorts events by time on their way from a producer to the sink: takes events in any order and
/// passes them on in order of time; equal times keep their order of arrival. Holds the events after
/// the last `advance`. Refuses events that contradict earlier ones, so that every produced trace
/// can be replayed. Not thread-safe.
class EventOrder {
 public:
  explicit EventOrder(TraceSink& sink) : sink_(&sink) {}

  /// Throws: Error{invalid_argument} for an event earlier than the last `advance`, or one that
  /// `fault_of` rejects.
  void add(const TraceEvent& event);
  /// Announces that no event before `now` will follow, and passes on the earlier ones. Throws like
  /// `TraceSink::write`, and Error{invalid_argument} for an event that `TraceAudit` rejects.
  void advance(Time now);
  /// Passes on all remaining events. Does not finish the sink.
  void finish();

  TagId intern(std::string_view text) { return tags_.intern(text); }
  const TraceAudit& audit() const noexcept { return audit_; }
  /// Number of held events.
  std::size_t waiting() const noexcept { return waiting_.size(); }

 private:
  struct Waiting {
    TraceEvent event;
    std::uint64_t number = 0;  // Order of arrival.
  };
  struct Later {
    bool operator()(const Waiting& a, const Waiting& b) const {
      return a.event.time != b.event.time ? a.event.time > b.event.time : a.number > b.number;
    }
  };
  void hand_on(const TraceEvent& event);
  void write();

  TraceSink* sink_;
  TraceTags tags_;
  TraceAudit audit_;
  std::priority_queue<Waiting, std::vector<Waiting>, Later> waiting_;
  std::vector<TraceEvent> batch_;
  std::uint64_t added_ = 0;
  Time now_{0};
};

/// A task that was declared; none by default. Times are those without a memory bottleneck.
struct DeclaredTask {
  std::uint32_t number = 0;
  Time start{0}, end{0};

  bool exists() const noexcept { return number != 0; }
};

/// Adds the tasks of a closed loop: numbers them from 1 in the order of their declarations, and
/// gives each the time at which it would start if no access took longer than its task's compute.
/// Not thread-safe.
class ClosedLoop {
 public:
  explicit ClosedLoop(EventOrder& order) : order_(&order) {}

  /// Declares `task`, which starts no earlier than its `time` and the ends of those in `after` that
  /// exist. Its number need not be set. Throws like `EventOrder::add`.
  DeclaredTask declare(TraceEvent task, std::span<const DeclaredTask> after = {});
  /// An access of the task that was declared last. Only the object, the range, the use and the
  /// passes need to be set.
  void access(TraceEvent access);
  /// A hint that the task that was declared last gives when it starts. For a use by the task's
  /// device, unless it names another.
  void hint(TraceEvent hint);
  /// An allocation, a free, a mark or a hint when `task` has ended; if it does not exist, at the
  /// time of `event`. It happens no earlier than that time in any case.
  void at_end(TraceEvent event, const DeclaredTask& task);

 private:
  EventOrder* order_;
  TraceEvent last_;
};

/// A task that is done once, with no time of its own.
TraceEvent task_event(Time compute, TracePlace at = {});

}  // namespace vma
