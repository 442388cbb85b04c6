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

DeclaredTask ClosedLoop::declare(TraceEvent task, std::span<const DeclaredTask> after) {
  task.kind = TraceEventKind::task;
  task.task = last_.task + 1;
  for (const DeclaredTask& one : after) task.time = std::max(task.time, one.end);
  order_->add(task);
  TraceEvent predecessor;
  predecessor.kind = TraceEventKind::after;
  predecessor.time = task.time;
  predecessor.task = task.task;
  for (const DeclaredTask& one : after) {
    if (!one.exists()) continue;
    predecessor.object = one.number;
    order_->add(predecessor);
  }
  last_ = task;
  return {task.task, task.time, task.time + task.duration * static_cast<std::int64_t>(task.bytes)};
}

void ClosedLoop::access(TraceEvent access) {
  access.kind = TraceEventKind::access;
  access.time = last_.time;
  access.task = last_.task;
  access.at = last_.at;
  order_->add(access);
}

void ClosedLoop::hint(TraceEvent hint) {
  hint.time = last_.time;
  hint.task = last_.task;
  order_->add(hint);
}

void ClosedLoop::at_end(TraceEvent event, const DeclaredTask& task) {
  event.task = task.number;
  event.at_end = event.kind == TraceEventKind::hint;
  if (task.exists()) event.time = std::max(event.time, task.end);
  order_->add(event);
}

TraceEvent task_event(Time compute, TracePlace at) {
  TraceEvent task;
  task.kind = TraceEventKind::task;
  task.bytes = 1;
  task.duration = compute;
  task.at = at;
  return task;
}

}  // namespace vma
