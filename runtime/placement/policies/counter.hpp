#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// Rule: for each chunk and GPU a counter says how many seconds all uses since the chunk's last
/// move would have taken less, had it lain in that GPU's HBM. The GPU's own remote uses add to it,
/// those of others take from it what they would have lost; it does not fall below zero. Once it
/// reaches `theta` times what the move costs, the chunk moves there, if there is room.
///
/// From: D. L. Black, D. D. Sleator, "Competitive Algorithms for Replication and Migration
/// Problems", CMU-CS-89-201, 1989. Their bound of 3 is for theta = 2 between places that are all
/// equally far; seconds take the place of their requests.
PolicyKind counter_kind();

}  // namespace vma::inline v1
