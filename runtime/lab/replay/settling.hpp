#pragma once

#include "lab/replay/replay_report.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace vma {

/// Of the slowdown, from the level that a phase ends at.
constexpr double settled_within = 0.05;
/// Of the windows with accesses of a phase; with fewer nothing is said of it.
constexpr std::size_t settling_windows_min = 8;

/// How long each phase of a trace took to settle, in the order of the marks: from its mark until
/// the first window from which on, until the next mark or the end, the slowdown (`access_s /
/// local_s` of a window) stays within `settled_within` of the level that the phase ends at. That
/// level is the median of the last quarter of its windows, all of which have to stay there. 0 if
/// all of the phase stays; null if it does not come to that, or has fewer than
/// `settling_windows_min` windows. Windows without accesses say nothing, nor does one that lies
/// across a mark; so it is known to one window.
std::vector<std::optional<Time>> settling_times(const ReplayReport& report);

}  // namespace vma
