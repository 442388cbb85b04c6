#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// Rule: for each chunk and GPU, a counter tells how many seconds all uses since the chunk's last
/// move would have saved if the chunk had been in that GPU's HBM. The GPU's own remote uses add to
/// it; uses by others subtract what they would have lost; it never falls below zero. Once it
/// reaches `theta` times the cost of the move, the chunk moves there, if there is room.
///
/// From: D. L. Black, D. D. Sleator, "Competitive Algorithms for Replication and Migration
/// Problems", CMU-CS-89-201, 1989. Their bound of 3 holds for theta = 2 between places that are all
/// equally far; seconds replace their requests.
PolicyKind counter_kind();

}  // namespace vma::inline v1
