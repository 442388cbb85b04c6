#pragma once

#include "lab/trace/trace_audit.hpp"
#include "lab/trace/trace_sink.hpp"
#include "lab/trace/trace_tags.hpp"

#include <cstdint>
#include <queue>
#include <string_view>
#include <vector>

namespace vma {

/// Between who makes events and the sink: takes them as they come to mind and hands them on in the
/// order of time, those of one time as they came. Holds those that lie ahead of `advance`. What
/// does not fit the events before it is refused here, so that no trace is made that cannot be
/// replayed. Not thread-safe.
class EventOrder {
 public:
  explicit EventOrder(TraceSink& sink) : sink_(&sink) {}

  /// Throws: Error{invalid_argument} for an event before the time that `advance` has come to, or
  /// that `fault_of` has something against.
  void add(const TraceEvent& event);
  /// No event before `now` will come: those are handed on. Throws as `TraceSink::write` does, and
  /// Error{invalid_argument} for an event that `TraceAudit` refuses.
  void advance(Time now);
  /// Hands on the rest. The sink is not ended.
  void finish();

  TagId intern(std::string_view text) { return tags_.intern(text); }
  const TraceAudit& audit() const noexcept { return audit_; }
  /// That lie ahead.
  std::size_t waiting() const noexcept { return waiting_.size(); }

 private:
  struct Waiting {
    TraceEvent event;
    std::uint64_t number = 0;  // As it came.
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

}  // namespace vma
