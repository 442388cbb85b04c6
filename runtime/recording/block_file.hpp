#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

// Numbers in recordings. Fixed ones are little-endian. Variable ones (LEB128) have seven bits per
// byte, lowest first; the eighth bit says that another byte follows.

constexpr std::size_t varint_bytes_max = 10;

/// Maps signed differences to small numbers: 0, -1, 1, -2 to 0, 1, 2, 3.
constexpr std::uint64_t zigzag(std::uint64_t difference) {
  return (difference << 1) ^ (0 - (difference >> 63));
}
constexpr std::uint64_t unzigzag(std::uint64_t number) {
  return (number >> 1) ^ (0 - (number & 1));
}

/// Returns the position after the number. Requires: room for `varint_bytes_max`.
inline std::uint8_t* put_varint(std::uint8_t* at, std::uint64_t value) {
  while (value >= 0x80) {
    *at++ = static_cast<std::uint8_t>(value) | 0x80;
    value >>= 7;
  }
  *at++ = static_cast<std::uint8_t>(value);
  return at;
}

template <typename Unsigned>
std::uint8_t* put_fixed(std::uint8_t* at, Unsigned value) {
  for (std::size_t byte = 0; byte < sizeof(Unsigned); ++byte) {
    *at++ = static_cast<std::uint8_t>(value >> (8 * byte));
  }
  return at;
}

template <typename Unsigned>
Unsigned get_fixed(const std::uint8_t* at) {
  Unsigned value = 0;
  for (std::size_t byte = 0; byte < sizeof(Unsigned); ++byte) {
    value |= static_cast<Unsigned>(static_cast<Unsigned>(at[byte]) << (8 * byte));
  }
  return value;
}

// The container of recordings and of binary traces: a header with JSON, then blocks with checksums.
// docs/reference/file_formats.md describes it byte by byte.

/// The properties of one kind of block file.
struct BlockFileFormat {
  std::array<std::uint8_t, 8> magic;
  std::uint32_t version;  ///< What a writer writes. A reader refuses later ones.
  /// Size of the header's fields between the length of the JSON and the checksum.
  std::size_t fields_bytes;
  std::size_t json_bytes_max;
  std::size_t payload_bytes_max;          ///< Maximum size of a block's payload.
  const char* what;                       ///< Such as "a recording".
  const char* call;                       ///< Errors name this call.
  std::uint32_t version_first = version;  ///< A reader refuses earlier ones.

  constexpr std::size_t checksum_offset() const { return 16 + fields_bytes; }
  /// Size of the header without its JSON.
  constexpr std::size_t header_bytes() const { return checksum_offset() + 4; }
};

/// The first bytes of a block, which identify its kind.
using BlockMarker = std::array<std::uint8_t, 4>;
inline constexpr std::size_t block_head_bytes = 16;

/// CRC-32 as in zlib, PNG and Ethernet, of one range or of two consecutive ones.
std::uint32_t crc32_of(std::span<const std::uint8_t> first,
                       std::span<const std::uint8_t> second = {});

/// Returns the bytes before the first block. Requires: `fields` has the format's size.
std::vector<std::uint8_t> block_file_header(const BlockFileFormat& format,
                                            std::span<const std::uint8_t> fields,
                                            std::string_view json);
/// Returns the bytes before the payload of a block that contains `records` records.
std::array<std::uint8_t, block_head_bytes> block_head(const BlockMarker& marker,
                                                      std::span<const std::uint8_t> payload,
                                                      std::uint32_t records);

/// Reads a block file, whatever it contains. Holds one block in memory. Not thread-safe.
class BlockFileReader {
 public:
  enum class Fault {
    none,
    no_head,  ///< The file ends before or within the block's head.
    length,   ///< The payload would be longer than the format allows.
    torn,     ///< The file ends within the payload.
    checksum,
  };
  struct Block {
    Fault fault = Fault::none;
    BlockMarker marker{};
    std::uint32_t bytes = 0;                ///< Size of the payload according to the head.
    std::uint32_t records = 0;              ///< Number of records according to the head.
    std::uint64_t end = 0;                  ///< The offset after the block, if its length is right.
    std::span<const std::uint8_t> payload;  ///< Valid until the next read.
  };

  /// After each payload, `padding_bytes` zeros can be read. Throws: Error{invalid_argument} that
  /// names the file, the offset and the reason, if the file cannot be read or has another format.
  BlockFileReader(std::string path, const BlockFileFormat& format, std::size_t padding_bytes = 0);

  const std::string& path() const noexcept { return path_; }
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  std::span<const std::uint8_t> fields() const noexcept { return fields_; }
  std::string_view json() const noexcept { return json_; }
  std::uint64_t first_block() const noexcept { return first_block_; }

  Block read_block(std::uint64_t offset);
  /// Returns false if the file ends before the end of `bytes`, or cannot be read there.
  bool read_at(std::uint64_t offset, std::span<std::uint8_t> bytes);
  /// Throws: Error{invalid_argument} with the path and the offset.
  [[noreturn]] void refuse(std::uint64_t offset, const std::string& reason) const;

 private:
  std::string first_file() const;
  void read_header();

  const std::string path_;
  const BlockFileFormat format_;
  const std::size_t padding_bytes_;
  std::ifstream file_;
  std::uint64_t size_bytes_ = 0;
  std::uint64_t position_ = 0;  // In `file_`. Avoids seeks, which drop its buffer.
  std::vector<std::uint8_t> fields_;
  std::string json_;
  std::uint64_t first_block_ = 0;
  std::vector<std::uint8_t> payload_;
};

}  // namespace vma
