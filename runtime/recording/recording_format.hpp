#pragma once

#include "placement/planning/decision.hpp"
#include "recording/block_file.hpp"

#include <vma/calibration.hpp>
#include <vma/snapshot.hpp>
#include <vma/telemetry.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace vma {

/// Settings of the recorded scheduler. The defaults are those of a runtime.
struct RecordedScheduler {
  std::string policy;  ///< The initial policy; decisions record changes.
  Time half_life = std::chrono::seconds(1);
  Time collect_every = std::chrono::milliseconds(1), tick = std::chrono::milliseconds(10);
  Time stall_budget = std::chrono::milliseconds(60);  ///< Per second; 0: no limit.
  /// Maximum time between the first and the last stream's arrival.
  Time gate_limit = std::chrono::milliseconds(5);
  std::uint64_t copy_budget_bytes = 0;            ///< Per second; 0: no limit.
  Time stall_ahead = std::chrono::seconds(4);     ///< `RuntimeOptions::stall_ahead`.
  Time max_stall = std::chrono::milliseconds(2);  ///< Of a gate.

  friend bool operator==(const RecordedScheduler&, const RecordedScheduler&) = default;
};

/// The header of a recording, which describes its process and machine. A `PlaceId` in the records
/// is an index into `places`.
struct RecordingHeader {
  std::uint64_t clock_start_utc_ns = 0;  ///< UTC of the records' time 0, counted from 1970.
  std::uint32_t process = 0;
  std::uint32_t file = 1;        ///< N of vmart-PID-N.rec.
  std::uint32_t first_file = 1;  ///< N of the first file of the same recording.
  std::string machine;           ///< `Runtime::description`.
  std::vector<PlaceState> places;
  MachineCosts costs{0, 0};  ///< Costs between these places.
  LaunchGaps gaps;
  PeerLinks peers;
  std::optional<RecordedScheduler> scheduler;  ///< Unset in older recordings.
};

/// The machine as JSON: description, places, and the rates and times of the costs as matrices.
std::string write_machine_json(const RecordingHeader& header);
/// Throws: Error{invalid_argument} that names `file` and describes the problem.
void read_machine_json(std::string_view json, const std::string& file, RecordingHeader& header);

/// The bytes of the file before the first block.
std::vector<std::uint8_t> write_recording_header(const RecordingHeader& header,
                                                 std::string_view machine_json);

// The constants of a file, which docs/reference/recordings.md describes byte by byte. Changing the
// meaning of any byte requires a new version.
inline constexpr BlockFileFormat recording_file{
    .magic = {'V', 'M', 'A', 'R', 'T', 'R', 'E', 'C'},
    .version = 1,
    .fields_bytes = 20,  // Start of the clock, process, number of this file and of the first one.
    .json_bytes_max = std::size_t{16} << 20,
    .payload_bytes_max = std::size_t{64} << 10,
    .what = "a recording",
    .call = "RecordingReader"};
inline constexpr BlockMarker recording_block{'V', 'B', 'L', 'K'};
constexpr std::size_t place_runs_max = 1024;  ///< In one record.

/// The low four bits of a record's first byte.
enum class RecordType : std::uint8_t {
  use = 1,
  allocation,
  free,
  hint,
  move,
  stall,
  decision,
  gap,
};

/// One use, as the scheduler collected it. `offset` counts from the start of the allocation.
struct RecordedUse {
  Time time{0};
  std::uint64_t allocation = 0, offset = 0, bytes = 0;
  float passes = 1;
  std::uint32_t weight = 1;  ///< How many uses this sample represents.
  PlaceId device{};
  UseKind kind = UseKind::read;

  friend bool operator==(const RecordedUse&, const RecordedUse&) = default;
};

/// Consecutive chunks at one place.
struct PlaceRun {
  PlaceId at{};
  std::uint32_t chunks = 0;

  friend bool operator==(const PlaceRun&, const PlaceRun&) = default;
};

/// An allocation and the places of its chunks. If `first_slot` > 0, it continues an allocation
/// whose places did not fit into one record.
struct RecordedAllocation {
  Time time{0};
  std::uint64_t allocation = 0, begin = 0, bytes = 0, chunk_bytes = 0;
  std::string tag;
  std::uint32_t first_slot = 0;
  std::vector<PlaceRun> places;

  friend bool operator==(const RecordedAllocation&, const RecordedAllocation&) = default;
};

struct RecordedFree {
  Time time{0};
  std::uint64_t allocation = 0;

  friend bool operator==(const RecordedFree&, const RecordedFree&) = default;
};

/// The times of `hint` are relative to `time`, as the program gave them.
struct RecordedHint {
  Time time{0};
  std::uint64_t allocation = 0, offset = 0, bytes = 0;
  Hint hint;
};

/// The end of one chunk's move. `decision` is the number of the decision that caused it, or 0 if a
/// program requested the move.
struct RecordedMove {
  Time start{0}, end{0}, stall{0};
  std::uint64_t allocation = 0, bytes = 0, decision = 0;
  std::uint32_t slot = 0;
  PlaceId from{}, to{};
  bool moved = false;

  friend bool operator==(const RecordedMove&, const RecordedMove&) = default;
};

/// The streams of a program were stopped, starting at `time`.
struct RecordedStall {
  Time time{0}, stall{0}, skew{0};
  std::uint64_t allocation = 0;  ///< The allocation that moved.
  std::uint32_t streams = 0;

  friend bool operator==(const RecordedStall&, const RecordedStall&) = default;
};

/// Records are missing here, because the disk was full or too slow.
struct RecordedGap {
  std::uint64_t records = 0, blocks = 0;

  friend bool operator==(const RecordedGap&, const RecordedGap&) = default;
};

using RecordedEvent = std::variant<RecordedUse, RecordedAllocation, RecordedFree, RecordedHint,
                                   RecordedMove, RecordedStall, Decision, RecordedGap>;

}  // namespace vma
