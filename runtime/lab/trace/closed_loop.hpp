#pragma once

#include "lab/trace/event_order.hpp"
#include "lab/trace/trace_event.hpp"

#include <cstdint>
#include <span>

namespace vma {

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
