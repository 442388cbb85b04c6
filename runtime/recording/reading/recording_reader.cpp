#include "recording/reading/recording_reader.hpp"

#include "recording/byte_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vma {

RecordingReader::RecordingReader(std::string path) : file_(std::move(path), recording_file) {
  const std::uint8_t* const fields = file_.fields().data();
  header_.clock_start_utc_ns = get_fixed<std::uint64_t>(fields);
  header_.process = get_fixed<std::uint32_t>(fields + 8);
  header_.file = get_fixed<std::uint32_t>(fields + 12);
  header_.first_file = get_fixed<std::uint32_t>(fields + 16);
  read_machine_json(file_.json(), file_.path(), header_);
  at_ = file_.first_block();
}

void RecordingReader::damage(std::uint64_t offset, std::string reason) {
  damages_.push_back({offset, std::move(reason)});
  if (damages_.size() == damages_max) at_ = file_.size_bytes();
}

bool RecordingReader::begins_block(std::uint64_t offset) {
  BlockMarker marker{};
  return file_.read_at(offset, marker) && marker == recording_block;
}

/// Advances to the first marker at or after `from`. Returns false at the end of the file if there
/// is none.
bool RecordingReader::find_marker(std::uint64_t from) {
  std::vector<std::uint8_t> window(64 * 1024);
  while (from < file_.size_bytes()) {
    const std::uint64_t left = file_.size_bytes() - from;
    const std::span bytes(window.data(), std::min<std::uint64_t>(window.size(), left));
    if (!file_.read_at(from, bytes)) break;
    const auto found =
        std::search(bytes.begin(), bytes.end(), recording_block.begin(), recording_block.end());
    if (found != bytes.end()) {
      at_ = from + static_cast<std::uint64_t>(found - bytes.begin());
      return true;
    }
    if (bytes.size() == left) break;
    from += bytes.size() - (recording_block.size() - 1);  // A marker may span two windows.
  }
  at_ = file_.size_bytes();
  return false;
}

/// Reads the block at `at_`, or records its damage and finds the next one. Returns false at the end
/// of the file.
bool RecordingReader::next_block() {
  using Fault = BlockFileReader::Fault;
  if (at_ == file_.size_bytes()) return false;
  block_ = at_;
  const BlockFileReader::Block read = file_.read_block(block_);
  const bool marked = read.fault != Fault::no_head && read.marker == recording_block;
  if (marked && read.fault == Fault::none) {
    at_ = read.end;
    block_records_ = read.records;
    decoder_ = BlockDecoder(read.payload, header_.places.size());
    in_block_ = true;
    ++blocks_;
    return true;
  }
  if (marked && read.fault == Fault::checksum) {
    // A correct length leads to another block or to the end of the file.
    if (read.end == file_.size_bytes() || begins_block(read.end)) {
      at_ = read.end;
    } else {
      find_marker(block_ + 1);
    }
    damage(block_, "a block's checksum is wrong");
    return true;
  }
  if (find_marker(block_ + 1)) {
    damage(block_, "expected a block");
  } else {
    torn_ = true;
  }
  return at_ < file_.size_bytes();
}

const RecordedEvent* RecordingReader::next() {
  for (;;) {
    if (in_block_) {
      if (decoder_.next(event_)) return &event_;
      in_block_ = false;
      if (decoder_.trouble() != nullptr) {
        damage(block_, fmt::format("after {} records: {}", decoder_.records(), decoder_.trouble()));
      } else if (decoder_.records() != block_records_) {
        damage(block_, fmt::format("holds {} records, not {}", decoder_.records(), block_records_));
      }
    }
    if (!next_block()) return nullptr;
  }
}

}  // namespace vma
