#pragma once

#include "lab/trace/trace_audit.hpp"
#include "lab/trace/trace_event.hpp"
#include "lab/trace/trace_sink.hpp"

#include <cstdint>
#include <queue>
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

}  // namespace vma
