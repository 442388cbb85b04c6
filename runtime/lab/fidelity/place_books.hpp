#pragma once

#include "lab/trace/trace_event.hpp"
#include "recording/recording_format.hpp"
#include "recording/recording_header.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace vma {

/// Returns the name of a place of a recording: its number among the GPUs or host nodes there.
Location recorded_location(const RecordingHeader& header, std::size_t place);

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

}  // namespace vma
