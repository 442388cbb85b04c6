#include "lab/trace/trace_block_decoder.hpp"

#include "recording/block_file.hpp"

#include <vma/error.hpp>

#include <bit>
#include <string_view>

namespace vma {

/// May read past the end, but only into the padding; `next` then detects it.
inline std::uint64_t TraceBlockDecoder::number() noexcept {
  std::uint64_t value = *at_++;
  if (value < 0x80) return value;
  value &= 0x7F;
  for (unsigned shift = 7; shift < 70; shift += 7) {
    const std::uint64_t next = *at_++;
    value |= (next & 0x7F) << shift;
    if (next < 0x80) {
      if (shift == 63 && next > 1) break;
      return value;
    }
  }
  trouble_ = "a number is too long";
  return 0;
}

TracePlace TraceBlockDecoder::place() noexcept {
  const std::optional<TracePlace> place = TracePlace::of_code(number());
  if (!place) trouble_ = "a place is invalid";
  return place.value_or(TracePlace());
}

TagId TraceBlockDecoder::tag(TraceTags& tags) {
  const std::uint64_t index = number();
  if (index < tags_.size()) return tags_[index];
  const std::uint64_t bytes = number();
  if (trouble_ != nullptr || at_ > end_) return TagId{};  // `next` reports the reason.
  if (index != tags_.size() || bytes > static_cast<std::uint64_t>(end_ - at_)) {
    trouble_ = "a tag is invalid";
    return TagId{};
  }
  const std::string_view text(reinterpret_cast<const char*>(at_), bytes);
  at_ += bytes;
  try {
    tags_.push_back(tags.intern(text));
  } catch (const Error&) {
    trouble_ = "a tag's text is invalid";
    return TagId{};
  }
  return tags_.back();
}

inline void TraceBlockDecoder::read_access(TraceEvent& event, unsigned first) noexcept {
  const unsigned use = (first >> trace_use_shift) & 3;
  if (use > static_cast<unsigned>(UseKind::read_write)) trouble_ = "a use has an invalid kind";
  event.use = static_cast<UseKind>(use);
  last_.access_object += unzigzag(number());
  event.offset = number();
  last_.bytes += unzigzag(number());
  if ((first & trace_has_place) != 0) last_.access_place = place().code();
  if ((first & trace_has_task) != 0) {
    last_.task += unzigzag(number());
    last_.duration += unzigzag(number());
    if (last_.task > UINT32_MAX) trouble_ = "a task's number is too large";
  }
  if ((first & trace_has_passes) != 0) {
    last_.passes_bits = get_fixed<std::uint32_t>(at_);
    at_ += 4;
  }
  event.object = last_.access_object;
  event.bytes = last_.bytes;
  event.duration = Time(static_cast<std::int64_t>(last_.duration));
  event.task = static_cast<std::uint32_t>(last_.task);
  event.passes = std::bit_cast<float>(last_.passes_bits);
  event.at = *TracePlace::of_code(last_.access_place);
}

void TraceBlockDecoder::read_allocation(TraceEvent& event, unsigned first, TraceTags& tags) {
  constexpr unsigned known =
      trace_has_place | trace_has_chunk_bytes | trace_has_tag | trace_has_after_task;
  if ((first & ~7u & ~known) != 0) trouble_ = "an allocation has unknown flags";
  last_.allocation_object += unzigzag(number());
  event.object = last_.allocation_object;
  event.bytes = number();
  if ((first & trace_has_place) != 0) event.at = place();
  if ((first & trace_has_chunk_bytes) != 0) event.chunk_bytes = number();
  read_after_task(event, first);
  if ((first & trace_has_tag) != 0) event.tag = tag(tags);
}

/// The number of a declared task.
std::uint32_t TraceBlockDecoder::task_number() noexcept {
  const std::uint64_t task = last_.declared_task + unzigzag(number());
  if (task > UINT32_MAX) trouble_ = "a task's number is too large";
  return static_cast<std::uint32_t>(task);
}

void TraceBlockDecoder::read_after_task(TraceEvent& event, unsigned first) noexcept {
  if ((first & trace_has_after_task) != 0) event.task = task_number();
}

void TraceBlockDecoder::read_task(TraceEvent& event, unsigned first, TraceTags& tags) {
  event.task = task_number();
  event.at = (first & trace_has_place) != 0 ? place() : *TracePlace::of_code(last_.access_place);
  if ((first & trace_has_compute) != 0) last_.compute += unzigzag(number());
  event.duration = Time(static_cast<std::int64_t>(last_.compute));
  event.bytes = (first & trace_has_repeat) != 0 ? number() : 1;
  if ((first & trace_has_request) != 0) last_.request += unzigzag(number());
  event.object = last_.request;
  if ((first & trace_has_tag) != 0) event.tag = tag(tags);
  last_.declare(event.task, event.at);
}

void TraceBlockDecoder::read_after(TraceEvent& event) noexcept {
  event.kind = TraceEventKind::after;
  event.task = task_number();
  event.object = event.task - unzigzag(number());
}

void TraceBlockDecoder::read_hint(TraceEvent& event) noexcept {
  event.kind = TraceEventKind::hint;
  const std::uint64_t members = number();
  if (members >= trace_hint_read_mostly << 1) trouble_ = "a hint has unknown flags";
  event.object = last_.access_object + unzigzag(number());
  event.offset = number();
  event.bytes = number();
  if ((members & trace_hint_place) != 0) event.at = place();
  if ((members & trace_hint_task) != 0) event.task = task_number();
  event.at_end = (members & trace_hint_at_end) != 0;
  event.duration = trace_time_unknown;
  if ((members & trace_hint_next_use) != 0)
    event.duration = Time(static_cast<std::int64_t>(number()));
  if ((members & trace_hint_until) != 0) event.chunk_bytes = number();
  event.use = (members & trace_hint_read_mostly) != 0 ? UseKind::read : UseKind::read_write;
  if ((members & trace_hint_passes) == 0) return;
  event.passes = std::bit_cast<float>(get_fixed<std::uint32_t>(at_));
  at_ += 4;
}

void TraceBlockDecoder::read_other(TraceEvent& event, unsigned first, TraceTags& tags) {
  const unsigned kind = first & ~trace_has_after_task;
  if (kind == static_cast<unsigned>(TraceEventKind::free)) {
    last_.free_object += unzigzag(number());
    event.object = last_.free_object;
    read_after_task(event, first);
  } else if (first == static_cast<unsigned>(TraceEventKind::place)) {
    event.object = last_.allocation_object + unzigzag(number());
    event.offset = number();
    event.bytes = number();
    event.at = place();
  } else if (first == static_cast<unsigned>(TraceEventKind::tag)) {
    event.object = number();
    event.tag = tag(tags);
  } else if (kind == static_cast<unsigned>(TraceEventKind::mark)) {
    read_after_task(event, first);
    event.tag = tag(tags);
  } else if (first == 0) {
    read_after(event);
  } else if (first == trace_first_hint) {
    read_hint(event);
  } else {
    trouble_ = "a record has an invalid kind";
  }
}

std::size_t TraceBlockDecoder::next(std::span<TraceEvent> events, TraceTags& tags) {
  for (std::size_t count = 0; count < events.size(); ++count) {
    if (done()) return count;
    const std::uint8_t* const record = at_;
    TraceEvent& event = events[count];
    event = TraceEvent{};
    const unsigned first = *at_++;
    last_.time += number();
    event.time = Time(static_cast<std::int64_t>(last_.time));
    event.kind = static_cast<TraceEventKind>(first & 7);
    if (event.kind == TraceEventKind::access) {
      read_access(event, first);
    } else if (event.kind == TraceEventKind::allocation) {
      read_allocation(event, first, tags);
    } else if (event.kind == TraceEventKind::task) {
      read_task(event, first, tags);
    } else {
      read_other(event, first, tags);
    }
    if (trouble_ == nullptr && at_ > end_) trouble_ = "a record ends too early";
    if (trouble_ == nullptr) trouble_ = fault_of(event);
    if (trouble_ != nullptr) {
      at_ = record;
      return count;
    }
  }
  return events.size();
}

}  // namespace vma
