#pragma once

#include "lab/replay/replay_report.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace vma {

/// Allowed distance of the slowdown from the final level of a phase.
constexpr double settled_within = 0.05;
/// Minimum number of windows with accesses in a phase; with fewer it has no result.
constexpr std::size_t settling_windows_min = 8;

/// How long each phase of a trace took to settle, in the order of the marks: from its mark until
/// the first window from which on, until the next mark or the end, the slowdown (`access_s /
/// local_s` of a window) stays within `settled_within` of the final level of the phase. That level
/// is the median of the last quarter of its windows, all of which have to stay there. 0 if the
/// whole phase stays; null if it never settles, or has fewer than `settling_windows_min` windows.
/// Windows without accesses are ignored, and so is one that contains a mark; so the resolution is
/// one window.
std::vector<std::optional<Time>> settling_times(const ReplayReport& report);

}  // namespace vma
