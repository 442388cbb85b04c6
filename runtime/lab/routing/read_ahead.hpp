#pragma once

#include "lab/trace/trace_source.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace vma {

/// Reads a trace a little ahead, for routers that look at the rest of a task. What they see does
/// not depend on how the source cuts its batches, so all formats of a trace give the same replay.
/// Not thread-safe.
class ReadAhead {
 public:
  /// Number of events after one that `from` returns, unless the trace ends.
  static constexpr std::size_t ahead_max = 1024;

  /// Requires: the source outlives it.
  explicit ReadAhead(TraceSource& source) : source_(&source) {}

  /// The next events; none after the last. Valid until the next call. Throws: as the source, which
  /// is read ahead of them.
  std::span<const TraceEvent> next();
  /// The event and at most `ahead_max` that follow it. Requires: it is one of those that `next` has
  /// returned last.
  std::span<const TraceEvent> from(const TraceEvent& event) const;

 private:
  TraceSource* source_;
  std::vector<TraceEvent> events_;  // Those returned last, then what was read ahead.
  std::size_t returned_ = 0;        // Number of the former.
  bool more_ = true;
};

}  // namespace vma
