#include "lab/trace/trace_event.hpp"

#include <cmath>

namespace vma {

std::string_view to_string(TraceEventKind kind) noexcept {
  switch (kind) {
    case TraceEventKind::access: return "access";
    case TraceEventKind::allocation: return "alloc";
    case TraceEventKind::free: return "free";
    case TraceEventKind::tag: return "tag";
    case TraceEventKind::mark: return "mark";
    case TraceEventKind::place: return "place";
    case TraceEventKind::task: return "task";
    case TraceEventKind::after: return "after";
  }
  return "unknown";
}

namespace {

const char* fault_of_task(const TraceEvent& event) noexcept {
  if (event.task == 0) return "its task has no number";
  if (event.kind == TraceEventKind::after) {
    if (event.object == 0 || event.object > UINT32_MAX) return "its predecessor has no number";
    return event.object == event.task ? "it is its own predecessor" : nullptr;
  }
  if (event.bytes == 0) return "it is done no times";
  if (event.bytes > trace_repeat_max) return "it is repeated too often";
  if (event.duration < Time(0)) return "its duration is below 0";
  const Time left = Time::max() - event.time;
  if (event.duration > left / static_cast<std::int64_t>(event.bytes)) {
    return "it ends after the end of time";
  }
  return event.at.is_set() && !event.at.is_gpu() ? "its device is not a GPU" : nullptr;
}

}  // namespace

const char* fault_of(const TraceEvent& event) noexcept {
  if (event.time < Time(0)) return "its time is before the beginning";
  switch (event.kind) {
    case TraceEventKind::access:
      if (event.bytes == 0) return "it accesses no bytes";
      if (event.bytes > trace_object_bytes_max || event.offset > trace_object_bytes_max) {
        return "its range is larger than any object";
      }
      if (!(event.passes > 0) || !std::isfinite(event.passes)) {
        return "its passes are not a number above 0";
      }
      if (event.duration < Time(0)) return "its duration is below 0";
      if (event.duration > Time::max() - event.time) return "it ends after the end of time";
      if (event.at.is_set() && !event.at.is_gpu()) return "its device is not a GPU";
      return nullptr;
    case TraceEventKind::allocation:
      if (event.bytes == 0) return "it allocates no bytes";
      if (event.bytes > trace_object_bytes_max) return "its object is too large";
      return nullptr;
    case TraceEventKind::place:
      if (event.bytes == 0) return "it places no bytes";
      if (event.bytes > trace_object_bytes_max || event.offset > trace_object_bytes_max) {
        return "its range is larger than any object";
      }
      return event.at.is_set() ? nullptr : "it names no place";
    case TraceEventKind::free: return nullptr;
    case TraceEventKind::tag:
    case TraceEventKind::mark: return event.tag == TagId{} ? "its text is empty" : nullptr;
    case TraceEventKind::task:
    case TraceEventKind::after: return fault_of_task(event);
  }
  return "its kind is invalid";
}

}  // namespace vma
