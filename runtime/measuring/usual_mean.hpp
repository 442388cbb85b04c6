#pragma once

#include <vma/snapshot.hpp>

#include <vector>

namespace vma {

/// The mean of all values up to three times the median: the typical cost without outliers that have
/// an unrelated cause, too rare for a handful of samples to average out. Requires: not empty.
Time usual_mean(std::vector<Time> times);

}  // namespace vma
