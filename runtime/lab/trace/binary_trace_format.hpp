#pragma once

#include "lab/trace/trace_event.hpp"
#include "lab/trace/trace_header.hpp"
#include "recording/block_file.hpp"

#include <cstddef>
#include <cstdint>

namespace vma {

// The constants of the binary trace format; docs/reference/traces.md describes it byte by byte. A
// change to the meaning of a byte needs a new `trace_version`.
inline constexpr BlockFileFormat trace_file{.magic = {'V', 'M', 'A', 'T', 'R', 'A', 'C', 'E'},
                                            .version = trace_version,
                                            .fields_bytes = 0,
                                            .json_bytes_max = std::size_t{1} << 20,
                                            .payload_bytes_max = std::size_t{128} << 10,
                                            .what = "a trace",
                                            .call = "read_trace",
                                            .version_first = trace_version_first};
inline constexpr BlockMarker trace_block{'T', 'B', 'L', 'K'};
inline constexpr BlockMarker trace_end{'T', 'E', 'N', 'D'};
/// A block ends when its payload reaches this size.
constexpr std::size_t trace_block_payload_bytes = std::size_t{64} << 10;
/// The longest record without its text: a first byte, nine numbers, four bytes of passes.
constexpr std::size_t trace_record_bytes_max = 1 + 9 * 10 + 4;

// The first byte of a record: the kind in the low three bits, and these flags above it.
constexpr unsigned trace_use_shift = 3;              ///< Accesses: two bits.
constexpr unsigned trace_has_place = 1u << 5;        ///< Accesses and allocations.
constexpr unsigned trace_has_task = 1u << 6;         ///< Accesses: task and duration follow.
constexpr unsigned trace_has_passes = 1u << 7;       ///< Accesses.
constexpr unsigned trace_has_tag = 1u << 3;          ///< Allocations.
constexpr unsigned trace_has_chunk_bytes = 1u << 4;  ///< Allocations.
// Since version 2. A record of kind 0 is a predecessor of a task.
constexpr unsigned trace_has_after_task = 1u << 6;  ///< Allocations, frees and marks.
constexpr unsigned trace_has_repeat = 1u << 4;      ///< Tasks, which also may have tag and place.
constexpr unsigned trace_has_compute = 1u << 6;     ///< Tasks.
constexpr unsigned trace_has_request = 1u << 7;     ///< Tasks.
// Since version 3. A record with this first byte is a hint; the number after the time has the
// flags.
constexpr unsigned trace_first_hint = 1u << 3;
constexpr unsigned trace_hint_place = 1u << 0;
constexpr unsigned trace_hint_task = 1u << 1;
constexpr unsigned trace_hint_at_end = 1u << 2;
constexpr unsigned trace_hint_next_use = 1u << 3;
constexpr unsigned trace_hint_until = 1u << 4;
constexpr unsigned trace_hint_passes = 1u << 5;
constexpr unsigned trace_hint_read_mostly = 1u << 6;

/// The values that a record stores differences from. Each block starts with these defaults.
struct TraceDifferences {
  std::uint64_t time = 0;
  std::uint64_t access_object = 0, bytes = 0, task = 0, duration = 0;
  std::uint64_t declared_task = 0, compute = 0, request = 0;
  std::uint64_t allocation_object = 0, free_object = 0;
  std::uint32_t passes_bits = 0x3F800000;  ///< The bits of 1.0f.
  std::uint16_t access_place = 0;

  /// The accesses that follow are those of the task.
  void declare(std::uint64_t number, TracePlace at) noexcept {
    declared_task = task = number;
    duration = 0;
    access_place = at.code();
  }
};

}  // namespace vma
