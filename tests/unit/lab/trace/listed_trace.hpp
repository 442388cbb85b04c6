#pragma once

#include "lab/trace/trace_source.hpp"

#include <chrono>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace vma {

/// A trace of events listed by a test, handed out a few at a time.
class ListedTrace : public TraceSource {
 public:
  ListedTrace& alloc(Time time, std::uint64_t object, std::uint64_t bytes, TracePlace at = {},
                     std::string_view tag = "") {
    TraceEvent event = of(TraceEventKind::allocation, time, object);
    event.bytes = bytes;
    event.at = at;
    event.tag = tags_.intern(tag);
    return add(event);
  }
  ListedTrace& access(Time time, std::uint64_t object, std::uint64_t bytes, TracePlace at = {},
                      std::uint64_t offset = 0) {
    TraceEvent event = of(TraceEventKind::access, time, object);
    event.bytes = bytes;
    event.offset = offset;
    event.at = at;
    return add(event);
  }
  ListedTrace& place(Time time, std::uint64_t object, std::uint64_t bytes, TracePlace at,
                     std::uint64_t offset = 0) {
    access(time, object, bytes, at, offset);
    last().kind = TraceEventKind::place;
    return *this;
  }
  ListedTrace& free(Time time, std::uint64_t object) {
    return add(of(TraceEventKind::free, time, object));
  }
  ListedTrace& mark(Time time, std::string_view text) {
    TraceEvent event = of(TraceEventKind::mark, time, 0);
    event.tag = tags_.intern(text);
    return add(event);
  }
  ListedTrace& add(const TraceEvent& event) {
    events_.push_back(event);
    return *this;
  }
  /// The event added last.
  TraceEvent& last() { return events_.back(); }

  std::span<const TraceEvent> next() override {
    const std::size_t count = std::min<std::size_t>(7, events_.size() - handed_out_);
    handed_out_ += count;
    return std::span(events_).subspan(handed_out_ - count, count);
  }

 private:
  static TraceEvent of(TraceEventKind kind, Time time, std::uint64_t object) {
    TraceEvent event;
    event.kind = kind;
    event.time = time;
    event.object = object;
    return event;
  }

  std::vector<TraceEvent> events_;
  std::size_t handed_out_ = 0;
};

}  // namespace vma
