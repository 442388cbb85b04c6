#pragma once

#include "lab/replay/replay_report.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace vma {

/// Tolerance around the final slowdown of a phase.
constexpr double settled_within = 0.05;
/// Minimum number of windows with accesses in a phase; with fewer it has no result.
constexpr std::size_t settling_windows_min = 8;

/// How long the placement took to come to rest after each mark, in the order of the marks. That is
/// the time from the mark to the first window from which the slowdown (`access_s / local_s` of a
/// window) stays within `settled_within` of its final level until the next mark or the end. The
/// final level is the median of the last quarter of the phase's windows, all of which must stay
/// within the tolerance. 0 if the whole phase does; null if the phase never settles, or has fewer
/// than `settling_windows_min` windows. Ignores windows without accesses, and windows that contain
/// a mark; so the resolution is one window.
std::vector<std::optional<Time>> settling_times(const ReplayReport& report);

}  // namespace vma
