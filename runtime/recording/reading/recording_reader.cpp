#include "recording/reading/recording_reader.hpp"

#include "recording/byte_order.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace vma {

RecordingReader::RecordingReader(std::string path)
    : path_(std::move(path)), file_(path_, std::ios::binary) {
  if (!file_.seekg(0, std::ios::end)) refuse(0, "cannot be read");
  const std::streamoff end = file_.tellg();
  if (end < 0) refuse(0, "cannot be read");
  size_bytes_ = static_cast<std::uint64_t>(end);
  read_header();
}

void RecordingReader::refuse(std::uint64_t offset, const std::string& reason) const {
  throw Error(ErrorKind::invalid_argument, "RecordingReader",
              fmt::format("{}: offset {}: {}", path_, offset, reason));
}

/// Requires: `offset` and `bytes` are within a 63-bit range.
bool RecordingReader::read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) {
  if (offset > size_bytes_ || bytes.size() > size_bytes_ - offset) return false;
  file_.clear();
  if (static_cast<std::uint64_t>(file_.tellg()) != offset) {
    file_.seekg(static_cast<std::streamoff>(offset));
  }
  file_.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return static_cast<bool>(file_);
}

void RecordingReader::read_header() {
  std::array<std::uint8_t, recording_header_bytes> bytes{};
  const std::size_t magic_bytes = recording_magic.size();
  if (!read_at(0, std::span(bytes).first(magic_bytes)) ||
      !std::equal(recording_magic.begin(), recording_magic.end(), bytes.begin())) {
    refuse(0, "is not a recording: it does not begin with VMARTREC");
  }
  if (!read_at(0, bytes)) refuse(size_bytes_, "ends within its header");
  const auto version = get_fixed<std::uint32_t>(&bytes[8]);
  if (version != recording_version) {
    refuse(8, fmt::format("is of version {}, not {}", version, recording_version));
  }
  const auto json_bytes = get_fixed<std::uint32_t>(&bytes[12]);
  if (json_bytes > machine_json_bytes_max) {
    refuse(12, fmt::format("claims a machine of {} bytes", json_bytes));
  }
  if (recording_header_bytes + json_bytes > size_bytes_) refuse(12, "ends within its machine");
  std::vector<std::uint8_t> json(json_bytes);
  if (!read_at(recording_header_bytes, json)) refuse(recording_header_bytes, "cannot be read");
  if (get_fixed<std::uint32_t>(&bytes[36]) != crc32_of({&bytes[8], 28}, json)) {
    refuse(36, "the header's checksum is wrong");
  }
  header_.clock_start_utc_ns = get_fixed<std::uint64_t>(&bytes[16]);
  header_.process = get_fixed<std::uint32_t>(&bytes[24]);
  header_.file = get_fixed<std::uint32_t>(&bytes[28]);
  header_.first_file = get_fixed<std::uint32_t>(&bytes[32]);
  read_machine_json({reinterpret_cast<const char*>(json.data()), json.size()}, path_, header_);
  at_ = recording_header_bytes + json_bytes;
}

void RecordingReader::damage(std::uint64_t offset, std::string reason) {
  damages_.push_back({offset, std::move(reason)});
  if (damages_.size() == damages_max) at_ = size_bytes_;
}

bool RecordingReader::begins_block(std::uint64_t offset) {
  std::array<std::uint8_t, block_marker.size()> marker{};
  return read_at(offset, marker) && marker == block_marker;
}

/// Advances to the first marker from `from` on. False: there is none, and the file is at its end.
bool RecordingReader::find_marker(std::uint64_t from) {
  std::vector<std::uint8_t> window(64 * 1024);
  while (from < size_bytes_) {
    const std::uint64_t left = size_bytes_ - from;
    const std::span bytes(window.data(), std::min<std::uint64_t>(window.size(), left));
    if (!read_at(from, bytes)) break;
    const auto found =
        std::search(bytes.begin(), bytes.end(), block_marker.begin(), block_marker.end());
    if (found != bytes.end()) {
      at_ = from + static_cast<std::uint64_t>(found - bytes.begin());
      return true;
    }
    if (bytes.size() == left) break;
    from += bytes.size() - (block_marker.size() - 1);  // A marker may span two windows.
  }
  at_ = size_bytes_;
  return false;
}

/// Reads the block at `at_`, or records its fault and finds the next. False: the file is at its
/// end.
bool RecordingReader::next_block() {
  if (at_ == size_bytes_) return false;
  block_ = at_;
  std::array<std::uint8_t, block_header_bytes> head{};
  const bool whole = read_at(block_, head);
  const auto bytes = get_fixed<std::uint32_t>(&head[4]);
  const bool marked = whole && std::equal(block_marker.begin(), block_marker.end(), head.begin());
  if (marked && bytes <= block_payload_bytes_max) {
    payload_.resize(bytes);
    const std::uint64_t end = block_ + block_header_bytes + bytes;
    if (read_at(block_ + block_header_bytes, payload_)) {
      if (get_fixed<std::uint32_t>(&head[12]) == crc32_of({&head[4], 8}, payload_)) {
        at_ = end;
        block_records_ = get_fixed<std::uint32_t>(&head[8]);
        decoder_ = BlockDecoder(payload_, header_.places.size());
        in_block_ = true;
        ++blocks_;
        return true;
      }
      // If the length is right, a block or the end follows.
      if (end == size_bytes_ || begins_block(end)) {
        at_ = end;
      } else {
        find_marker(block_ + 1);
      }
      damage(block_, "a block's checksum is wrong");
      return true;
    }
  }
  if (find_marker(block_ + 1)) {
    damage(block_, "expected a block");
  } else {
    torn_ = true;
  }
  return at_ < size_bytes_;
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
