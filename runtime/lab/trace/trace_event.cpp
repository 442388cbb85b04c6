#include "lab/trace/trace_event.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
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
    case TraceEventKind::hint: return "hint";
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

bool is_in_objects(const TraceEvent& event) noexcept {
  return event.bytes <= trace_object_bytes_max && event.offset <= trace_object_bytes_max;
}

const char* fault_of_hint(const TraceEvent& event) noexcept {
  if (event.bytes == 0) return "it announces no bytes";
  if (!is_in_objects(event)) return "its range is larger than any object";
  if (!(event.passes >= 0) || !std::isfinite(event.passes)) {
    return "its passes are not a number of at least 0";
  }
  if (event.duration < Time(0)) return "it announces a use in the past";
  if (event.chunk_bytes > INT64_MAX) return "it ends after the end of time";
  if (event.use == UseKind::write) return "its use is neither read nor read_write";
  if (event.at.is_set() && !event.at.is_gpu()) return "its device is not a GPU";
  if (event.task == 0 && !event.at.is_set()) return "it names neither a device nor a task";
  return event.task == 0 && event.at_end ? "it names no task that ends" : nullptr;
}

}  // namespace

const char* fault_of(const TraceEvent& event) noexcept {
  if (event.time < Time(0)) return "its time is before the beginning";
  switch (event.kind) {
    case TraceEventKind::access:
      if (event.bytes == 0) return "it accesses no bytes";
      if (!is_in_objects(event)) return "its range is larger than any object";
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
      if (!is_in_objects(event)) return "its range is larger than any object";
      return event.at.is_set() ? nullptr : "it names no place";
    case TraceEventKind::free: return nullptr;
    case TraceEventKind::tag:
    case TraceEventKind::mark: return event.tag == TagId{} ? "its text is empty" : nullptr;
    case TraceEventKind::task:
    case TraceEventKind::after: return fault_of_task(event);
    case TraceEventKind::hint: return fault_of_hint(event);
  }
  return "its kind is invalid";
}

Hint hint_of(const TraceEvent& event, Place device) noexcept {
  Hint hint;
  hint.device = device;
  hint.passes = event.passes;
  hint.read_mostly = event.use == UseKind::read;
  if (event.duration != trace_time_unknown) hint.next_use = event.duration;
  if (event.chunk_bytes != 0) hint.until = Time(static_cast<std::int64_t>(event.chunk_bytes));
  return hint;
}

TraceEvent hint_event(const Hint& hint) noexcept {
  TraceEvent event;
  event.kind = TraceEventKind::hint;
  event.passes = static_cast<float>(hint.passes);
  event.use = hint.read_mostly ? UseKind::read : UseKind::read_write;
  event.duration = hint.next_use.value_or(trace_time_unknown);
  if (hint.until) event.chunk_bytes = static_cast<std::uint64_t>(hint.until->count());
  return event;
}

TraceTags::TraceTags() {
  texts_.emplace_back();
  index_.emplace(texts_.front(), TagId{});
}

TagId TraceTags::intern(std::string_view text) {
  const auto found = index_.find(text);
  if (found != index_.end()) return found->second;
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorKind::invalid_argument, "TraceTags", why);
  };
  if (text.size() > text_bytes_max) {
    refuse(fmt::format("a tag of {} bytes; at most {} are allowed", text.size(), text_bytes_max));
  }
  if (std::any_of(text.begin(), text.end(),
                  [](char character) { return static_cast<unsigned char>(character) < 32; })) {
    refuse("a tag with control characters");
  }
  if (texts_.size() > tags_max) refuse(fmt::format("more than {} tags", tags_max));
  const auto tag = static_cast<TagId>(texts_.size());
  texts_.emplace_back(text);
  index_.emplace(texts_.back(), tag);
  return tag;
}

}  // namespace vma
