#pragma once

#include <vma/snapshot.hpp>

namespace vma::inline v1 {

/// How long use is taken to go on as it is, where a rule says nothing of it: the half-life of the
/// long averages.
inline constexpr Time expected_use = std::chrono::seconds(10);

/// Seconds of access that `chunk` would cost less at `to` if its use went on for `expected_use` as
/// the short averages have it, less the time of the move. 0 where it would not pay: the rules that
/// ask do not weigh this, they only say it. Requires: there is a way from where it lies.
double expected_saving(const Snapshot& snapshot, ChunkId chunk, PlaceId to);

}  // namespace vma::inline v1
