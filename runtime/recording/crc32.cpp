#include "recording/recording_header.hpp"

#include <array>

namespace vma {
namespace {

constexpr std::uint32_t polynomial = 0xEDB88320;  // Of zlib, bits reversed.
constexpr std::size_t lanes = 8;                  // Bytes per step.

using Table = std::array<std::array<std::uint32_t, 256>, lanes>;

/// Row n: the effect of a byte on the sum when n more bytes have followed it.
constexpr Table make_table() {
  Table table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? polynomial : 0);
    table[0][byte] = sum;
  }
  for (std::size_t lane = 1; lane < lanes; ++lane) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = table[lane - 1][byte];
      table[lane][byte] = (before >> 8) ^ table[0][before & 0xFF];
    }
  }
  return table;
}
constexpr Table table = make_table();

/// With one byte at a time, each look-up waits for the one before; eight at once do not.
std::uint32_t go_on(std::uint32_t sum, std::span<const std::uint8_t> bytes) {
  std::size_t at = 0;
  for (; bytes.size() - at >= lanes; at += lanes) {
    std::uint32_t next = 0;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::uint32_t mixed = lane < 4 ? (sum >> (8 * lane)) & 0xFF : 0;
      next ^= table[lanes - 1 - lane][bytes[at + lane] ^ mixed];
    }
    sum = next;
  }
  for (; at < bytes.size(); ++at) sum = (sum >> 8) ^ table[0][(sum ^ bytes[at]) & 0xFF];
  return sum;
}

}  // namespace

std::uint32_t crc32_of(std::span<const std::uint8_t> bytes) {
  return crc32_of(bytes, {});
}

std::uint32_t crc32_of(std::span<const std::uint8_t> first, std::span<const std::uint8_t> second) {
  return ~go_on(go_on(~std::uint32_t{0}, first), second);
}

}  // namespace vma
