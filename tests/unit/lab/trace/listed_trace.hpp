#pragma once

#include "lab/trace/trace_source.hpp"

#include <chrono>
#include <cstddef>
#include <initializer_list>
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
  /// Its accesses follow, with its number: `access(...).of_task(number)`.
  ListedTrace& task(Time time, std::uint32_t number, Time compute = Time(0),
                    std::initializer_list<std::uint32_t> after = {}, std::uint64_t repeat = 1,
                    TracePlace at = {}) {
    TraceEvent event = of(TraceEventKind::task, time, 0);
    event.task = number;
    event.duration = compute;
    event.bytes = repeat;
    event.at = at;
    add(event);
    for (const std::uint32_t predecessor : after)
      add(of(TraceEventKind::after, time, predecessor)).of_task(number);
    return *this;
  }
  /// For `at`, if it is set; else `of_task` says which task gives it.
  ListedTrace& hint(Time time, std::uint64_t object, std::uint64_t bytes, const Hint& hint,
                    TracePlace at = {}) {
    TraceEvent event = hint_event(hint);
    event.time = time;
    event.object = object;
    event.bytes = bytes;
    event.at = at;
    return add(event);
  }
  /// The event added last is an access of this task, or waits for its end.
  ListedTrace& of_task(std::uint32_t number) {
    last().task = number;
    return *this;
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
