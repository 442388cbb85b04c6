#include "lab/trace/binary_trace_writer.hpp"

#include "recording/byte_order.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace vma {

static_assert(trace_block_payload_bytes + trace_record_bytes_max + TraceTags::text_bytes_max <
                  trace_file.payload_bytes_max,
              "a block that is not full yet takes any record");

BinaryTraceWriter::BinaryTraceWriter(const std::string& path, const TraceHeader& header)
    : path_(path),
      file_(path, trace_file_terms()),
      payload_(trace_file.payload_bytes_max),
      at_(payload_.data()) {
  write_header(header);
}

void BinaryTraceWriter::write_header(const TraceHeader& header) {
  const std::string json = write_trace_header(header);
  if (json.size() > trace_file.json_bytes_max) {
    throw Error(ErrorKind::invalid_argument, "create_trace",
                fmt::format("{}: a header of {} bytes", path_, json.size()));
  }
  const std::vector<std::uint8_t> bytes = block_file_header(trace_file, {}, json);
  file_.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void BinaryTraceWriter::put(std::uint64_t value) {
  at_ = put_varint(at_, value);
}

void BinaryTraceWriter::put_time(unsigned first, Time time) {
  *at_++ = static_cast<std::uint8_t>(first);
  const auto now = static_cast<std::uint64_t>(time.count());
  put(now - last_.time);
  last_.time = now;
}

/// Writes the number of the tag in this block, followed by its text at its first occurrence.
void BinaryTraceWriter::put_tag(TagId tag, const TraceTags& tags) {
  const auto [found, is_new] =
      block_tags_.try_emplace(tag, static_cast<std::uint32_t>(block_tags_.size()));
  put(found->second);
  if (!is_new) return;
  const std::string_view text = tags.text(tag);
  put(text.size());
  at_ = std::copy(text.begin(), text.end(), at_);
}

void BinaryTraceWriter::add_access(const TraceEvent& event) {
  const auto duration = static_cast<std::uint64_t>(event.duration.count());
  const auto passes = std::bit_cast<std::uint32_t>(event.passes);
  unsigned first = static_cast<unsigned>(TraceEventKind::access) | static_cast<unsigned>(event.use)
                                                                       << trace_use_shift;
  if (event.at.code() != last_.access_place) first |= trace_has_place;
  if (event.task != last_.task || duration != last_.duration) first |= trace_has_task;
  if (passes != last_.passes_bits) first |= trace_has_passes;
  put_time(first, event.time);
  put(zigzag(event.object - last_.access_object));
  put(event.offset);
  put(zigzag(event.bytes - last_.bytes));
  if ((first & trace_has_place) != 0) put(event.at.code());
  if ((first & trace_has_task) != 0) {
    put(zigzag(event.task - last_.task));
    put(zigzag(duration - last_.duration));
  }
  if ((first & trace_has_passes) != 0) at_ = put_fixed(at_, passes);
  last_.access_object = event.object;
  last_.bytes = event.bytes;
  last_.access_place = event.at.code();
  last_.task = event.task;
  last_.duration = duration;
  last_.passes_bits = passes;
}

void BinaryTraceWriter::add_allocation(const TraceEvent& event, const TraceTags& tags) {
  unsigned first = static_cast<unsigned>(TraceEventKind::allocation);
  if (event.at.is_set()) first |= trace_has_place;
  if (event.tag != TagId{}) first |= trace_has_tag;
  if (event.chunk_bytes != 0) first |= trace_has_chunk_bytes;
  put_time(first, event.time);
  put(zigzag(event.object - last_.allocation_object));
  put(event.bytes);
  if (event.at.is_set()) put(event.at.code());
  if (event.chunk_bytes != 0) put(event.chunk_bytes);
  if (event.tag != TagId{}) put_tag(event.tag, tags);
  last_.allocation_object = event.object;
}

void BinaryTraceWriter::add(const TraceEvent& event, const TraceTags& tags) {
  const auto kind = static_cast<unsigned>(event.kind);
  switch (event.kind) {
    case TraceEventKind::access: return add_access(event);
    case TraceEventKind::allocation: return add_allocation(event, tags);
    case TraceEventKind::free:
      put_time(kind, event.time);
      put(zigzag(event.object - last_.free_object));
      last_.free_object = event.object;
      return;
    case TraceEventKind::place:
      put_time(kind, event.time);
      put(zigzag(event.object - last_.allocation_object));
      put(event.offset);
      put(event.bytes);
      return put(event.at.code());
    case TraceEventKind::tag:
      put_time(kind, event.time);
      put(event.object);
      return put_tag(event.tag, tags);
    case TraceEventKind::mark: put_time(kind, event.time); return put_tag(event.tag, tags);
  }
}

void BinaryTraceWriter::write_block(const BlockMarker& marker) {
  const std::span payload(payload_.data(), at_);
  const auto head = block_head(marker, payload, events_);
  file_.write({reinterpret_cast<const char*>(head.data()), head.size()});
  file_.write({reinterpret_cast<const char*>(payload.data()), payload.size()});
}

void BinaryTraceWriter::end_block() {
  write_block(trace_block);
  events_before_ += events_;
  ++blocks_;
  events_ = 0;
  at_ = payload_.data();
  last_ = {};
  block_tags_.clear();
}

void BinaryTraceWriter::write(std::span<const TraceEvent> events, const TraceTags& tags) {
  for (const TraceEvent& event : events) {
    require_next(event, time_, path_);
    time_ = event.time;
    add(event, tags);
    ++events_;
    const auto used = static_cast<std::size_t>(at_ - payload_.data());
    if (used >= trace_block_payload_bytes) end_block();
  }
}

void BinaryTraceWriter::finish() {
  if (events_ > 0) end_block();
  put(blocks_);
  put(events_before_);
  write_block(trace_end);
  file_.become(path_);
}

}  // namespace vma
