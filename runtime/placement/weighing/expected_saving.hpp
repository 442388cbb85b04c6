#pragma once

#include <vma/snapshot.hpp>

namespace vma::inline v1 {

/// How long use is assumed to continue unchanged if a rule does not define it: the half-life of the
/// long averages.
inline constexpr Time expected_use = std::chrono::seconds(10);

/// Seconds of access that `chunk` would save at `to` if its use continued for `expected_use` at the
/// short averages, minus the time of the move. 0 if it would not pay: the rules that use this only
/// report it. Requires: there is a way from where the chunk is.
double expected_saving(const Snapshot& snapshot, ChunkId chunk, PlaceId to);

}  // namespace vma::inline v1
