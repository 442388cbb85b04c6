#pragma once

#include "lab/trace/trace_header.hpp"
#include "recording/block_file.hpp"

#include <cstddef>
#include <cstdint>

namespace vma {

// The constants of a binary trace, described byte by byte in docs/reference/traces.md. A change in
// the meaning of bytes needs another version (`trace_version`).
inline constexpr BlockFileFormat trace_file{.magic = {'V', 'M', 'A', 'T', 'R', 'A', 'C', 'E'},
                                            .version = trace_version,
                                            .fields_bytes = 0,
                                            .json_bytes_max = std::size_t{1} << 20,
                                            .payload_bytes_max = std::size_t{128} << 10,
                                            .what = "a trace",
                                            .call = "read_trace"};
inline constexpr BlockMarker trace_block{'T', 'B', 'L', 'K'};
inline constexpr BlockMarker trace_end{'T', 'E', 'N', 'D'};
/// A block takes events until its payload reaches this.
constexpr std::size_t trace_block_payload_bytes = std::size_t{64} << 10;
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
