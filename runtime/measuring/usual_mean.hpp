#pragma once

#include <vma/snapshot.hpp>

#include <vector>

namespace vma {

/// The mean of the values that are at most three times the median: the typical cost, without the
/// few outliers that something else delayed, for which a handful of samples is too few. Requires:
/// not empty.
Time usual_mean(std::vector<Time> times);

}  // namespace vma
