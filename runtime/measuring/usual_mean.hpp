#pragma once

#include <vma/snapshot.hpp>

#include <vector>

namespace vma {

/// The mean of those that are at most three times the median: what many of them add up to, but for
/// the few that something else held up, which a handful of samples says nothing of.
/// Requires: there is one.
Time usual_mean(std::vector<Time> times);

}  // namespace vma
