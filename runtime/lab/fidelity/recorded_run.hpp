#pragma once

#include "lab/trace/trace_sink.hpp"
#include "lab/trace/trace_event.hpp"
#include "recording/recording_format.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace vma {

/// Returns the name of a place of a recording: its number among the GPUs or host nodes there.
Place recorded_location(const RecordingHeader& header, std::size_t place);

/// Where each access of a recorded run found its bytes: follows the events of its trace and the
/// policies' moves.
class PlaceBooks {
 public:
  struct Part {
    TracePlace at;
    double bytes = 0;  ///< Of all passes, in both directions.
  };

  /// `moves` are in the order in which they ended. Requires: both outlive it.
  PlaceBooks(const RecordingHeader& header, std::span<const RecordedMove> moves)
      : header_(header), moves_(moves) {}

  /// Requires: the events come in order.
  void follow(const TraceEvent& event);
  /// The chunks of the access that was followed last, in order. Valid until the next call.
  std::span<const Part> parts() const noexcept { return parts_; }

 private:
  struct Object {
    std::uint64_t chunk_bytes = 0;
    std::vector<TracePlace> at;  // Per chunk.
  };
  void apply(const RecordedMove& move);
  void place(const TraceEvent& event);
  void find_parts(const TraceEvent& event);

  const RecordingHeader& header_;
  const std::span<const RecordedMove> moves_;
  std::size_t next_ = 0;
  std::unordered_map<std::uint64_t, Object> objects_;
  std::vector<Part> parts_;
};

/// The facts of a recorded run. Bytes accessed count each pass, and both directions.
struct RecordedFacts {
  Time first_use{0}, last_use{0};
  std::uint64_t accesses = 0;
  double bytes = 0, own_bytes = 0;           ///< `own_bytes`: in the HBM of the accessing GPU.
  std::uint64_t moves = 0, bytes_moved = 0;  ///< Moves decided by a policy.
  std::uint64_t moves_failed = 0;
  std::uint64_t program_moves = 0, program_bytes_moved = 0;
  std::map<std::string, std::uint64_t> bytes_by_route;  ///< By policies, per "gpu(0)>host(0)".
  std::uint64_t stalls = 0;  ///< Gates since the first use, for policies and the program.
  Time stall{0}, skew{0};
  std::vector<std::string> policies;  ///< Policies that made decisions, in order.
  std::uint64_t decisions = 0, hints = 0, samples = 0, records_lost = 0;
  double seconds() const { return std::chrono::duration<double>(last_use - first_use).count(); }
};

/// A recorded run: its machine, the program's actions, and the outcome. Places are named by their
/// number in the recording: GPUs 2 and 3 of a process that saw no others are gpu(0) and gpu(1).
struct RecordedRun {
  RecordingHeader header;
  KeptTrace trace;
  RecordedFacts facts;
  std::vector<RecordedMove> moves;    ///< Those of policies, in the order in which they ended.
  std::vector<RecordedStall> stalls;  ///< In order of time.
  std::uint64_t bad_records = 0;
};

/// Reads a whole recording; each use takes 64 bytes. Throws: Error{invalid_argument} with the file
/// if it is not a recording, begins in the middle of one, has no uses, or has more than
/// `bad_records_max` bad records.
void read_run(const std::string& path, std::uint64_t bad_records_max, RecordedRun& run);

}  // namespace vma
