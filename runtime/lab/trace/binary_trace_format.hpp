#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace vma {

// The constants of a binary trace, described byte by byte in docs/reference/traces.md. A change in
// the meaning of bytes needs another version (`trace_version`).
constexpr std::array<std::uint8_t, 8> trace_magic{'V', 'M', 'A', 'T', 'R', 'A', 'C', 'E'};
constexpr std::size_t trace_file_header_bytes = 20;  ///< Before the header's JSON.
constexpr std::array<std::uint8_t, 4> trace_block_marker{'T', 'B', 'L', 'K'};
constexpr std::array<std::uint8_t, 4> trace_end_marker{'T', 'E', 'N', 'D'};
constexpr std::size_t trace_block_header_bytes = 16;
/// A block takes events until its payload reaches this.
constexpr std::size_t trace_block_payload_bytes = std::size_t{64} << 10;
constexpr std::size_t trace_block_payload_bytes_max = std::size_t{128} << 10;
/// The longest record without its text: a first byte, seven numbers, four bytes of passes.
constexpr std::size_t trace_record_bytes_max = 1 + 7 * 10 + 4;

// A record's first byte: the kind in the low three bits, and these flags.
constexpr unsigned trace_use_shift = 3;              ///< Of an access: two bits.
constexpr unsigned trace_has_place = 1u << 5;        ///< Of an access or allocation.
constexpr unsigned trace_has_task = 1u << 6;         ///< Of an access: task and duration follow.
constexpr unsigned trace_has_passes = 1u << 7;       ///< Of an access.
constexpr unsigned trace_has_tag = 1u << 3;          ///< Of an allocation.
constexpr unsigned trace_has_chunk_bytes = 1u << 4;  ///< Of an allocation.

/// The base of a record's differences. A block begins with these defaults.
struct TraceDifferences {
  std::uint64_t time = 0;
  std::uint64_t access_object = 0, bytes = 0, task = 0, duration = 0;
  std::uint64_t allocation_object = 0, free_object = 0;
  std::uint32_t passes_bits = 0x3F800000;  ///< 1.
  std::uint16_t access_place = 0;
};

}  // namespace vma
