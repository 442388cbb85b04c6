#include "lab/trace/binary_trace_reader.hpp"

#include "recording/byte_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace vma {

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

}  // namespace vma
