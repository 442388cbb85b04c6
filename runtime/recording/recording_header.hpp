#pragma once

#include <vma/calibration.hpp>
#include <vma/snapshot.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// Settings of the recorded scheduler. The defaults are those of a runtime.
struct RecordedScheduler {
  std::string policy;  ///< The initial policy; decisions record changes.
  Time half_life = std::chrono::seconds(1);
  Time drain = std::chrono::milliseconds(1), tick = std::chrono::milliseconds(10);
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

}  // namespace vma
