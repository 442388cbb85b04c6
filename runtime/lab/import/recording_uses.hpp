#pragma once

#include "lab/import/convert_input.hpp"
#include "lab/trace/event_order.hpp"

#include <array>

namespace vma {

/// The runtime's own recordings (docs/reference/recordings.md).
///
/// An allocation is an object with its number, tag and chunk size. Its home is the place of its
/// first chunks; further events place the chunks that are elsewhere. A use is an access by the
/// device that made it; a sample that stands for several uses has that many times the passes. Hints
/// are hints. Times are those of the recording. A chunk that the program moved is placed at its new
/// place. The scheduler's moves, stalls and decisions are ignored, since a replay makes its own.
/// After vmart-PID-N.rec, the files N+1 and so on of the same recording in the same folder follow.
///
/// Records may be up to "window_ms" out of order and are sorted. Bad "lines" are records, counted
/// from 1 over all files: a use of an unknown or freed allocation, or one that starts beyond its
/// end; a use that arrives after the window; lost or damaged records.
void convert_recording(const ConvertInput& input, EventOrder& order);

inline constexpr std::array recording_parameters{
    TraceParameter{"window_ms", 1000, 0, 1e9, "how far records may be out of order"}};

}  // namespace vma
