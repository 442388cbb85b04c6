#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// Rule: a chunk belongs where its users together wait least for it. What it would save there
/// within a horizon, less what the chunks lose that make room for it, must exceed `margin` times
/// what the moves cost (copy and weighted stall); and the waiting here must be `margin` times that
/// there, so that GPUs that share a chunk evenly do not pull it to and fro. How much use will go on
/// is the smaller of the short and the long average, so that neither a burst nor what is over
/// counts for much. Of what competes, the most saving a byte goes first, within a budget of bytes a
/// route.
///
/// Where the best place is full, the chunks that are worth least there make room: each must be
/// worth `colder` times less a byte than what comes, and goes to the next place in the order of
/// its own users' topology. If no such chunks are found, the next best place is tried.
///
/// It acts on ticks, on a use after which a chunk is asked for half as much again as when it was
/// last looked at, on hints, when the announced use comes within the horizon, and on pressure.
///
/// From: ARMS, arXiv 2508.04417, 2025 (short and long averages, benefit against cost, batches by
/// bandwidth); Griffin, HPCA 2020 (per-GPU counts of pages, moves between GPUs).
PolicyKind cost_benefit_kind();

}  // namespace vma::inline v1
