#pragma once

#include "lab/import/convert_input.hpp"
#include "lab/trace/event_order.hpp"

#include <array>

namespace vma {

/// The runtime's own recordings (docs/reference/recordings.md).
///
/// An allocation is an object with its number, tag and chunk size, and with the place of its first
/// chunks as its home; chunks elsewhere are placed there by further events. A use is an access with
/// the device that made it; a sample of several uses has that many times its passes. Times are
/// those of the recording. A chunk that the program moved is placed there. Moves of the scheduler,
/// stalls, hints and decisions are left out, since the lab replays them itself. After
/// vmart-PID-N.rec, the files N+1 and so on of the same recording beside it follow.
///
/// Records may be up to "window_ms" out of order and are sorted. Bad "lines" are records, counted
/// from 1 on over all files: a use of an unknown or freed allocation, or beyond its end; one that
/// is later than the window; lost or damaged records.
void convert_recording(const ConvertInput& input, EventOrder& order);

inline constexpr std::array recording_parameters{
    TraceParameter{"window_ms", 1000, 0, 1e9, "how far records may be out of order"}};

}  // namespace vma
