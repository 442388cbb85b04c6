#include "lab/trace/binary_trace.hpp"

#include "base/whole_file.hpp"
#include "lab/trace/binary_trace_format.hpp"
#include "lab/trace/trace_block_decoder.hpp"
#include "recording/block_file.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vma {
namespace {

class BinaryTraceReader final : public TraceSource {
 public:
  explicit BinaryTraceReader(std::string path);

  std::span<const TraceEvent> next() override;

 private:
  bool next_block();
  void end(std::span<const std::uint8_t> payload);

  BlockFileReader file_;
  std::uint64_t at_ = 0;     // Offset of the next block.
  std::uint64_t block_ = 0;  // Offset of the current block.
  std::uint32_t block_events_ = 0, block_found_ = 0;
  std::uint64_t blocks_ = 0, events_ = 0;  // Read so far.
  TraceBlockDecoder decoder_;              // Of the block that `file_` has read last.
  std::vector<TraceEvent> batch_;
  Time time_{0};  // Time of the last event.
  bool ended_ = false;
};

BinaryTraceReader::BinaryTraceReader(std::string path)
    : file_(std::move(path), trace_file, TraceBlockDecoder::padding_bytes),
      at_(file_.first_block()),
      batch_(batch_max) {
  header_ = read_trace_header(file_.json(), file_.path());
}

/// Reads the block at the current position. Returns false at a valid end of the trace.
bool BinaryTraceReader::next_block() {
  using Fault = BlockFileReader::Fault;
  block_ = at_;
  const BlockFileReader::Block read = file_.read_block(block_);
  if (read.fault == Fault::no_head) {
    file_.refuse(block_, "the file has no end marker; its writer was interrupted");
  }
  const bool last = read.marker == trace_end;
  if (!last && read.marker != trace_block) file_.refuse(block_, "expected a block");
  if (read.fault == Fault::length) {
    file_.refuse(block_ + 4, fmt::format("claims a block of {} bytes", read.bytes));
  }
  if (read.fault == Fault::torn) file_.refuse(block_, "the file ends within a block");
  if (read.fault == Fault::checksum) file_.refuse(block_ + 12, "a block's checksum is wrong");
  at_ = read.end;
  if (last) return end(read.payload), false;
  block_events_ = read.records;
  block_found_ = 0;
  decoder_ = TraceBlockDecoder(read.payload);
  ++blocks_;
  return true;
}

/// The payload of the last block is the number of blocks and the number of events.
void BinaryTraceReader::end(std::span<const std::uint8_t> payload) {
  std::array<std::uint8_t, 2 * varint_bytes_max> expected{};
  std::uint8_t* at = put_varint(expected.data(), blocks_);
  at = put_varint(at, events_);
  if (!std::equal(payload.begin(), payload.end(), expected.data(), at)) {
    file_.refuse(block_, fmt::format("the end marker does not match {} blocks and {} events",
                                     blocks_, events_));
  }
  if (at_ != file_.size_bytes()) file_.refuse(at_, "data follows the end");
}

std::span<const TraceEvent> BinaryTraceReader::next() {
  while (!ended_) {
    const std::size_t count = decoder_.next(batch_, tags_);
    const std::uint64_t here = block_ + block_head_bytes + decoder_.offset();
    if (decoder_.trouble() != nullptr) file_.refuse(here, decoder_.trouble());
    if (count > 0) {
      for (std::size_t event = 0; event < count; ++event) {
        if (batch_[event].time < time_)
          file_.refuse(block_, "an event is earlier than the previous one");
        time_ = batch_[event].time;
      }
      block_found_ += static_cast<std::uint32_t>(count);
      events_ += count;
      return {batch_.data(), count};
    }
    if (block_found_ != block_events_) {
      file_.refuse(block_ + 8,
                   fmt::format("a block holds {} events, not {}", block_found_, block_events_));
    }
    ended_ = !next_block();
  }
  return {};
}

class BinaryTraceWriter final : public TraceSink {
 public:
  BinaryTraceWriter(const std::string& path, const TraceHeader& header);

  void write(std::span<const TraceEvent> events, const TraceTags& tags) override;
  void finish() override;

 private:
  std::vector<std::uint8_t> header_bytes(unsigned version) const;
  void add(const TraceEvent& event, const TraceTags& tags);
  void add_access(const TraceEvent& event);
  void add_allocation(const TraceEvent& event, const TraceTags& tags);
  void add_hint(const TraceEvent& event);
  void add_task(const TraceEvent& event, const TraceTags& tags);
  /// `kind`, and whether it waits for a task.
  static unsigned first_of(const TraceEvent& event);
  void put_after_task(const TraceEvent& event);
  void put_time(unsigned first, Time time);
  void put(std::uint64_t value);
  void put_tag(TagId tag, const TraceTags& tags);
  void end_block();
  void write_block(const BlockMarker& marker);

  std::string path_;
  TraceHeader header_;
  WholeFile file_;
  std::vector<std::uint8_t> payload_;
  std::uint8_t* at_ = nullptr;  // The next byte of `payload_`.
  std::uint32_t events_ = 0;    // In the current block.
  std::uint64_t events_before_ = 0, blocks_ = 0;
  TraceDifferences last_;
  std::unordered_map<TagId, std::uint32_t> block_tags_;  // Their numbers in the current block.
  Time time_{0};
  unsigned version_ = trace_version_first;
};

std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

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

}  // namespace

std::unique_ptr<TraceSource> read_binary_trace(const std::string& path) {
  return std::make_unique<BinaryTraceReader>(path);
}

std::unique_ptr<TraceSink> write_binary_trace(const std::string& path, const TraceHeader& header) {
  return std::make_unique<BinaryTraceWriter>(path, header);
}

}  // namespace vma
