#include "lab/trace/event_order.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vma {

void EventOrder::add(const TraceEvent& event) {
  if (event.time < now_) {
    throw Error(
        ErrorKind::invalid_argument, "EventOrder",
        fmt::format("an event at {} ns arrived after all events before {} ns were passed on",
                    event.time.count(), now_.count()));
  }
  if (const char* const fault = fault_of(event)) {
    throw Error(ErrorKind::invalid_argument, "EventOrder",
                fmt::format("at {} ns: {}", event.time.count(), fault));
  }
  waiting_.push({event, added_++});
}

void EventOrder::write() {
  sink_->write(batch_, tags_);
  batch_.clear();
}

void EventOrder::hand_on(const TraceEvent& event) {
  if (const std::optional<std::string> fault = audit_.add(event)) {
    throw Error(ErrorKind::invalid_argument, "EventOrder",
                fmt::format("at {} ns: {}", event.time.count(), *fault));
  }
  batch_.push_back(event);
  if (batch_.size() == TraceSource::batch_max) write();
}

void EventOrder::advance(Time now) {
  now_ = std::max(now_, now);
  while (!waiting_.empty() && waiting_.top().event.time < now_) {
    hand_on(waiting_.top().event);
    waiting_.pop();
  }
}

void EventOrder::finish() {
  advance(Time::max());
  while (!waiting_.empty()) {
    hand_on(waiting_.top().event);
    waiting_.pop();
  }
  write();
}

}  // namespace vma
