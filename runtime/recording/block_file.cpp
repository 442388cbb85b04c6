#include "recording/block_file.hpp"

#include "base/check.hpp"

#include <vma/error.hpp>

#include <boost/crc.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace vma {
namespace {

constexpr std::size_t version_offset = 8;
constexpr std::size_t length_offset = 12;
constexpr std::size_t fields_offset = 16;

}  // namespace

std::uint32_t crc32_of(std::span<const std::uint8_t> first, std::span<const std::uint8_t> second) {
  boost::crc_32_type sum;
  sum.process_bytes(first.data(), first.size());
  sum.process_bytes(second.data(), second.size());
  return sum.checksum();
}

std::vector<std::uint8_t> block_file_header(const BlockFileFormat& format,
                                            std::span<const std::uint8_t> fields,
                                            std::string_view json) {
  VMART_CHECK(fields.size() == format.fields_bytes, "the format says how many fields there are");
  std::vector<std::uint8_t> bytes(format.header_bytes());
  std::uint8_t* at = std::ranges::copy(format.magic, bytes.data()).out;
  const std::uint8_t* const summed = at;
  at = put_fixed(at, format.version);
  at = put_fixed(at, static_cast<std::uint32_t>(json.size()));
  at = std::ranges::copy(fields, at).out;
  put_fixed(at, crc32_of({summed, at},
                         {reinterpret_cast<const std::uint8_t*>(json.data()), json.size()}));
  bytes.insert(bytes.end(), json.begin(), json.end());
  return bytes;
}

std::array<std::uint8_t, block_head_bytes> block_head(const BlockMarker& marker,
                                                      std::span<const std::uint8_t> payload,
                                                      std::uint32_t records) {
  std::array<std::uint8_t, block_head_bytes> head{};
  std::uint8_t* at = std::ranges::copy(marker, head.begin()).out;
  at = put_fixed(at, static_cast<std::uint32_t>(payload.size()));
  at = put_fixed(at, records);
  put_fixed(at, crc32_of(std::span(head).subspan(4, 8), payload));
  return head;
}

BlockFileReader::BlockFileReader(std::string path, const BlockFileFormat& format,
                                 std::size_t padding_bytes)
    : path_(std::move(path)),
      format_(format),
      padding_bytes_(padding_bytes),
      file_(path_, std::ios::binary),
      payload_(format.payload_bytes_max + padding_bytes) {
  if (std::error_code none; std::filesystem::is_directory(path_, none)) {
    refuse(0, fmt::format("is a folder; name one of the files in it, such as {}", first_file()));
  }
  if (!file_.seekg(0, std::ios::end)) refuse(0, "cannot be read");
  const std::streamoff end = file_.tellg();
  if (end < 0 || !file_.seekg(0)) refuse(0, "cannot be read");
  size_bytes_ = static_cast<std::uint64_t>(end);
  read_header();
}

/// Of the folder that the path names; "FILE" if there is none.
std::string BlockFileReader::first_file() const {
  std::error_code none;
  std::string first;
  for (const auto& entry : std::filesystem::directory_iterator(path_, none)) {
    const std::string each = entry.path();
    if (entry.is_regular_file(none) && (first.empty() || each < first)) first = each;
  }
  return first.empty() ? path_ + "/FILE" : first;
}

void BlockFileReader::refuse(std::uint64_t offset, const std::string& reason) const {
  throw Error(ErrorKind::invalid_argument, format_.call,
              fmt::format("{}: offset {}: {}", path_, offset, reason));
}

bool BlockFileReader::read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) {
  if (offset > size_bytes_ || bytes.size() > size_bytes_ - offset) return false;
  if (position_ != offset) {
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset));
  }
  file_.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const bool whole = static_cast<bool>(file_);
  // The position is unknown after a failure, so the next read seeks.
  position_ = whole ? offset + bytes.size() : size_bytes_ + 1;
  return whole;
}

void BlockFileReader::read_header() {
  std::vector<std::uint8_t> bytes(format_.header_bytes());
  const std::size_t magic_bytes = format_.magic.size();
  if (!read_at(0, std::span(bytes).first(magic_bytes)) ||
      !std::equal(format_.magic.begin(), format_.magic.end(), bytes.begin())) {
    refuse(0, fmt::format("is not {}: it does not begin with {}", format_.what,
                          std::string_view(reinterpret_cast<const char*>(format_.magic.data()),
                                           magic_bytes)));
  }
  if (!read_at(0, bytes)) refuse(size_bytes_, "ends within its header");
  const auto version = get_fixed<std::uint32_t>(&bytes[version_offset]);
  if (version < format_.version_first || version > format_.version) {
    const std::string known = format_.version_first == format_.version
                                  ? fmt::format("{}", format_.version)
                                  : fmt::format("{} to {}", format_.version_first, format_.version);
    refuse(version_offset, fmt::format("is of version {}, not {}", version, known));
  }
  const auto json_bytes = get_fixed<std::uint32_t>(&bytes[length_offset]);
  if (json_bytes > format_.json_bytes_max) {
    refuse(length_offset, fmt::format("claims a header of {} bytes", json_bytes));
  }
  std::vector<std::uint8_t> json(json_bytes);
  if (!read_at(bytes.size(), json)) refuse(length_offset, "ends within its header");
  const std::size_t checksum = format_.checksum_offset();
  const auto summed = std::span(bytes).subspan(version_offset, checksum - version_offset);
  if (get_fixed<std::uint32_t>(&bytes[checksum]) != crc32_of(summed, json)) {
    refuse(checksum, "the header's checksum is wrong");
  }
  const auto fields = std::span(bytes).subspan(fields_offset, format_.fields_bytes);
  fields_.assign(fields.begin(), fields.end());
  json_.assign(json.begin(), json.end());
  first_block_ = bytes.size() + json.size();
}

BlockFileReader::Block BlockFileReader::read_block(std::uint64_t offset) {
  Block block;
  std::array<std::uint8_t, block_head_bytes> head{};
  if (!read_at(offset, head)) return block.fault = Fault::no_head, block;
  std::copy_n(head.begin(), block.marker.size(), block.marker.begin());
  block.bytes = get_fixed<std::uint32_t>(&head[4]);
  block.records = get_fixed<std::uint32_t>(&head[8]);
  block.end = offset + block_head_bytes + block.bytes;
  if (block.bytes > format_.payload_bytes_max) return block.fault = Fault::length, block;
  const std::span payload(payload_.data(), block.bytes);
  if (!read_at(offset + block_head_bytes, payload)) return block.fault = Fault::torn, block;
  std::fill_n(payload.data() + payload.size(), padding_bytes_, std::uint8_t{0});
  if (get_fixed<std::uint32_t>(&head[12]) != crc32_of(std::span(head).subspan(4, 8), payload)) {
    return block.fault = Fault::checksum, block;
  }
  block.payload = payload;
  return block;
}

}  // namespace vma
