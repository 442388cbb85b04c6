#pragma once

#include "lab/import/convert_input.hpp"
#include "lab/trace/event_order.hpp"

#include <array>

namespace vma {

/// The runtime's own recordings (docs/reference/recordings.md).
///
/// An allocation is an object of its number, with its tag, its chunks' size, and for its home the
/// place of its first chunks; those that lie elsewhere are placed there by events of their own. A
/// use is an access with the device that made it; one that is the sample of several has that many
/// times its passes. Times are those of the recording. A chunk that the program moved is placed
/// there. Moves of the scheduler, stalls, hints and decisions are what the lab replays by itself,
/// and are left out. Given vmart-PID-N.rec, the files N+1 and so on of
/// the same recording that lie beside it follow.
///
/// Records are up to "window_ms" out of order and are put in order. Bad "lines" are records,
/// counted from 1 on over all files: a use of an allocation that the recording does not have or
/// that was freed, or beyond its end; one that comes later than the window; what was lost or is
/// damaged.
void convert_recording(const ConvertInput& input, EventOrder& order);

inline constexpr std::array recording_parameters{
    TraceParameter{"window_ms", 1000, 0, 1e9, "how far records may be out of order"}};

}  // namespace vma
