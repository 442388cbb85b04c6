#include "lab/trace/binary_trace_writer.hpp"

#include "recording/byte_order.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace vma {

namespace {

std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

static_assert(trace_block_payload_bytes + trace_record_bytes_max + TraceTags::text_bytes_max <
                  trace_file.payload_bytes_max,
              "a block that is not full yet takes any record");

BinaryTraceWriter::BinaryTraceWriter(const std::string& path, const TraceHeader& header)
    : path_(path),
      header_(header),
      file_(path, trace_file_terms()),
      payload_(trace_file.payload_bytes_max),
      at_(payload_.data()) {
  file_.write(text_of(header_bytes(trace_version_first)));
}

std::vector<std::uint8_t> BinaryTraceWriter::header_bytes(unsigned version) const {
  const std::string json = write_trace_header(header_, version);
  if (json.size() > trace_file.json_bytes_max) {
    throw Error(ErrorKind::invalid_argument, "create_trace",
                fmt::format("{}: a header of {} bytes", path_, json.size()));
  }
  BlockFileFormat format = trace_file;
  format.version = version;
  return block_file_header(format, {}, json);
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
  unsigned first = first_of(event);
  if (event.at.is_set()) first |= trace_has_place;
  if (event.tag != TagId{}) first |= trace_has_tag;
  if (event.chunk_bytes != 0) first |= trace_has_chunk_bytes;
  put_time(first, event.time);
  put(zigzag(event.object - last_.allocation_object));
  put(event.bytes);
  if (event.at.is_set()) put(event.at.code());
  if (event.chunk_bytes != 0) put(event.chunk_bytes);
  put_after_task(event);
  if (event.tag != TagId{}) put_tag(event.tag, tags);
  last_.allocation_object = event.object;
}

unsigned BinaryTraceWriter::first_of(const TraceEvent& event) {
  return static_cast<unsigned>(event.kind) | (event.task != 0 ? trace_has_after_task : 0);
}

void BinaryTraceWriter::put_after_task(const TraceEvent& event) {
  if (event.task != 0) put(zigzag(event.task - last_.declared_task));
}

void BinaryTraceWriter::add_task(const TraceEvent& event, const TraceTags& tags) {
  const auto compute = static_cast<std::uint64_t>(event.duration.count());
  unsigned first = static_cast<unsigned>(event.kind);
  if (event.tag != TagId{}) first |= trace_has_tag;
  if (event.bytes != 1) first |= trace_has_repeat;
  if (event.at.code() != last_.access_place) first |= trace_has_place;
  if (compute != last_.compute) first |= trace_has_compute;
  if (event.object != last_.request) first |= trace_has_request;
  put_time(first, event.time);
  put(zigzag(event.task - last_.declared_task));
  if ((first & trace_has_place) != 0) put(event.at.code());
  if ((first & trace_has_compute) != 0) put(zigzag(compute - last_.compute));
  if ((first & trace_has_repeat) != 0) put(event.bytes);
  if ((first & trace_has_request) != 0) put(zigzag(event.object - last_.request));
  if ((first & trace_has_tag) != 0) put_tag(event.tag, tags);
  last_.compute = compute;
  last_.request = event.object;
  last_.declare(event.task, event.at);
}

void BinaryTraceWriter::add_hint(const TraceEvent& event) {
  const auto passes = std::bit_cast<std::uint32_t>(event.passes);
  unsigned members = 0;
  if (event.at.is_set()) members |= trace_hint_place;
  if (event.task != 0) members |= trace_hint_task;
  if (event.at_end) members |= trace_hint_at_end;
  if (event.duration != trace_time_unknown) members |= trace_hint_next_use;
  if (event.chunk_bytes != 0) members |= trace_hint_until;
  if (event.passes != 1) members |= trace_hint_passes;
  if (event.use == UseKind::read) members |= trace_hint_read_mostly;
  put_time(trace_first_hint, event.time);
  put(members);
  put(zigzag(event.object - last_.access_object));
  put(event.offset);
  put(event.bytes);
  if (event.at.is_set()) put(event.at.code());
  put_after_task(event);
  if (event.duration != trace_time_unknown) put(static_cast<std::uint64_t>(event.duration.count()));
  if (event.chunk_bytes != 0) put(event.chunk_bytes);
  if (event.passes != 1) at_ = put_fixed(at_, passes);
}

void BinaryTraceWriter::add(const TraceEvent& event, const TraceTags& tags) {
  const unsigned kind = first_of(event);
  switch (event.kind) {
    case TraceEventKind::access: return add_access(event);
    case TraceEventKind::allocation: return add_allocation(event, tags);
    case TraceEventKind::free:
      put_time(kind, event.time);
      put(zigzag(event.object - last_.free_object));
      last_.free_object = event.object;
      return put_after_task(event);
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
    case TraceEventKind::mark:
      put_time(kind, event.time);
      put_after_task(event);
      return put_tag(event.tag, tags);
    case TraceEventKind::task: return add_task(event, tags);
    case TraceEventKind::hint: return add_hint(event);
    case TraceEventKind::after:
      put_time(0, event.time);
      put(zigzag(event.task - last_.declared_task));
      put(zigzag(event.task - event.object));
      return;
  }
}

void BinaryTraceWriter::write_block(const BlockMarker& marker) {
  const std::span payload(payload_.data(), at_);
  const auto head = block_head(marker, payload, events_);
  file_.write(text_of(head));
  file_.write(text_of(payload));
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
    version_ = std::max(version_, version_with(event));
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
  if (version_ > trace_version_first && !file_.rewrite_begin(text_of(header_bytes(version_)))) {
    throw Error(ErrorKind::invalid_argument, "TraceSink::write",
                path_ + ": a binary trace with tasks or hints needs a file, not a pipe");
  }
  file_.become(path_);
}

}  // namespace vma
