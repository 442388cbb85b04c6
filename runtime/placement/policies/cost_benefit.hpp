#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// Rule: a chunk belongs where all its users together wait least for it. What it would save there
/// within a horizon, minus the loss of the chunks that make room for it, must exceed `margin` times
/// the cost of the moves (copy and weighted stall); and the waiting here must be `margin` times
/// that there, so that GPUs that share a chunk evenly do not pull it to and fro. The expected use
/// is the smaller of the short and the long average, so that neither bursts nor ended use count for
/// much. Competing moves go by saving per byte, highest first, within a budget of bytes for each
/// route.
///
/// If the best place is full, the chunks that are worth least there make room: each must be worth
/// `colder` times less per byte than the new chunk, and goes to the next place in the order of its
/// own users' topology. If no such chunks are found, the next best place is tried. Under pressure,
/// what comes is taken to be worth as much as the mean of what is there; if it can go elsewhere,
/// only chunks worth `colder` times less make room for it.
///
/// Use that has shifted to another place for `shift` is weighed by itself, since averages still
/// contain what was before (`ShiftWatch`). It is expected to last as long again, or as long as the
/// use before it, if that is known and shorter. No chunk that is used where it lies makes room for
/// such a move. A chunk whose last such move did not pay has to be more patient.
///
/// With `limit`, a saving counts only as far as paths hold their GPUs up (`PathLimits`); what
/// victims lose always counts.
///
/// It acts on ticks, on a use after which a chunk's demand is half as much again as at the last
/// look, on hints, when the announced use comes within the horizon, and on pressure.
///
/// From: ARMS, arXiv 2508.04417, 2025 (short and long averages, benefit against cost, batches by
/// bandwidth); Griffin, HPCA 2020 (per-GPU counts of pages, moves between GPUs).
PolicyKind cost_benefit_kind();

}  // namespace vma::inline v1
