#include "lab/trace/binary_trace_reader.hpp"

#include "recording/byte_order.hpp"
#include "recording/recording_header.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace vma {

BinaryTraceReader::BinaryTraceReader(std::string path)
    : path_(std::move(path)),
      file_(path_, std::ios::binary),
      payload_(trace_block_payload_bytes_max + TraceBlockDecoder::padding_bytes),
      batch_(batch_max) {
  if (!file_.seekg(0, std::ios::end)) refuse(0, "cannot be read");
  const std::streamoff end = file_.tellg();
  if (end < 0 || !file_.seekg(0)) refuse(0, "cannot be read");
  size_bytes_ = static_cast<std::uint64_t>(end);
  read_header();
}

void BinaryTraceReader::refuse(std::uint64_t offset, const std::string& reason) const {
  throw Error(ErrorKind::invalid_argument, "read_trace",
              fmt::format("{}: offset {}: {}", path_, offset, reason));
}

bool BinaryTraceReader::read(std::span<std::uint8_t> bytes) {
  if (bytes.size() > size_bytes_ - at_) return false;
  if (!file_.read(reinterpret_cast<char*>(bytes.data()),
                  static_cast<std::streamsize>(bytes.size()))) {
    refuse(at_, "cannot be read");
  }
  at_ += bytes.size();
  return true;
}

void BinaryTraceReader::read_header() {
  std::array<std::uint8_t, trace_file_header_bytes> bytes{};
  if (!read(std::span(bytes).first(trace_magic.size())) ||
      !std::equal(trace_magic.begin(), trace_magic.end(), bytes.begin())) {
    refuse(0, "is not a trace: it does not begin with VMATRACE");
  }
  if (!read(std::span(bytes).subspan(trace_magic.size()))) {
    refuse(size_bytes_, "ends within its header");
  }
  const auto version = get_fixed<std::uint32_t>(&bytes[8]);
  if (version != trace_version) {
    refuse(8, fmt::format("is of version {}, not {}", version, trace_version));
  }
  const auto json_bytes = get_fixed<std::uint32_t>(&bytes[12]);
  if (json_bytes > trace_header_json_bytes_max) {
    refuse(12, fmt::format("claims a header of {} bytes", json_bytes));
  }
  std::vector<std::uint8_t> json(json_bytes);
  if (!read(json)) refuse(12, "ends within its header");
  if (get_fixed<std::uint32_t>(&bytes[16]) != crc32_of({&bytes[8], 8}, json)) {
    refuse(16, "the header's checksum is wrong");
  }
  header_ = read_trace_header({reinterpret_cast<const char*>(json.data()), json.size()}, path_);
}

/// Reads the block that begins here. False: it is the end, and all is well.
bool BinaryTraceReader::next_block() {
  block_ = at_;
  std::array<std::uint8_t, trace_block_header_bytes> head{};
  if (!read(head)) refuse(block_, "the file has no end marker; its writer was interrupted");
  const auto is = [&head](const auto& marker) {
    return std::equal(marker.begin(), marker.end(), head.begin());
  };
  const bool last = is(trace_end_marker);
  if (!last && !is(trace_block_marker)) refuse(block_, "expected a block");
  const auto bytes = get_fixed<std::uint32_t>(&head[4]);
  if (bytes > trace_block_payload_bytes_max) {
    refuse(block_ + 4, fmt::format("claims a block of {} bytes", bytes));
  }
  const std::span payload(payload_.data(), bytes);
  if (!read(payload)) refuse(block_, "the file ends within a block");
  std::fill_n(payload_.begin() + bytes, TraceBlockDecoder::padding_bytes, std::uint8_t{0});
  if (get_fixed<std::uint32_t>(&head[12]) != crc32_of({&head[4], 8}, payload)) {
    refuse(block_ + 12, "a block's checksum is wrong");
  }
  if (last) return end(payload), false;
  block_events_ = get_fixed<std::uint32_t>(&head[8]);
  block_found_ = 0;
  decoder_ = TraceBlockDecoder(payload);
  ++blocks_;
  return true;
}

/// The last block holds how many blocks and events there are.
void BinaryTraceReader::end(std::span<const std::uint8_t> payload) {
  std::array<std::uint8_t, 2 * varint_bytes_max> expected{};
  std::uint8_t* at = put_varint(expected.data(), blocks_);
  at = put_varint(at, events_);
  if (!std::equal(payload.begin(), payload.end(), expected.data(), at)) {
    refuse(block_,
           fmt::format("the end marker does not match {} blocks and {} events", blocks_, events_));
  }
  if (at_ != size_bytes_) refuse(at_, "data follows the end");
}

std::span<const TraceEvent> BinaryTraceReader::next() {
  while (!ended_) {
    const std::size_t count = decoder_.next(batch_, tags_);
    const std::uint64_t here = block_ + trace_block_header_bytes + decoder_.offset();
    if (decoder_.trouble() != nullptr) refuse(here, decoder_.trouble());
    if (count > 0) {
      for (std::size_t event = 0; event < count; ++event) {
        if (batch_[event].time < time_) refuse(block_, "an event is earlier than the previous one");
        time_ = batch_[event].time;
      }
      block_found_ += static_cast<std::uint32_t>(count);
      events_ += count;
      return {batch_.data(), count};
    }
    if (block_found_ != block_events_) {
      refuse(block_ + 8,
             fmt::format("a block holds {} events, not {}", block_found_, block_events_));
    }
    ended_ = !next_block();
  }
  return {};
}

}  // namespace vma
