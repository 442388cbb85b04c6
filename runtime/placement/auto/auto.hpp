#pragma once

#include <vma/policy.hpp>

#include <vector>

// What `auto` is made of: a policy that weighs (`cost_benefit`), predictions around it
// (`repeating`), and a guard around both (`guarded`). README.md here says how they work together.
namespace vma::inline v1 {

/// `auto`: the policy to start with. Rule: `cost_benefit`, and predictions where the program
/// repeats itself (`repeating_kind`), under the guard; savings count only where a path holds a GPU
/// up. The parameters are those of `guarded+repeating+cost_benefit`; only `limit` has another
/// default.
PolicyKind auto_kind();

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

/// `repeating+NAME`: another policy, until the program turns out to repeat itself.
///
/// Rule: memory that is allocated anew in each iteration is expected to live and to be used like
/// what it repeats (`RepeatedLives`), memory that stays to be used after the same times as before
/// (`UseRhythm`). While predictions come true, from the second iteration on,
///
/// - an allocation goes to the host at once if what will be requested during its life and is used
///   more densely needs the room near its GPU;
/// - a chunk is prefetched to the GPU that uses it next, the nearest use first, if the copy can be
///   there in time, within a share of its route's rate, and if the use saves `repeat_margin` times
///   the stalls of all moves that it takes. The chunk whose next use is furthest makes room, but
///   only if that is later than the use that is prefetched for;
/// - under pressure, the chunks whose next use is furthest go first.
///
/// The other policy decides about everything that is not predicted, and about everything once fewer
/// than half of the predictions come true.
///
/// From: P. Cao, E. Felten, A. Karlin and K. Li, "A Study of Integrated Prefetching and Caching
/// Strategies", SIGMETRICS 1995 (optimal replacement, do no harm); X. Peng et al., "Capuchin",
/// ASPLOS 2020 (the accesses of one iteration foretell the next one's); J. Jung, J. Kim and J. Lee,
/// "DeepUM", ASPLOS 2023; H. Zhang et al., "G10", MICRO 2023 (prefetches within the bandwidth).
///
/// The kind has the parameters of `inner`, and its own, called `repeat_...`. Throws:
/// Error{invalid_argument} if `inner` has one of these already.
PolicyKind repeating_kind(PolicyKind inner);

/// `guarded+NAME`: another policy, as long as its moves pay (the class in guarded.cpp has the
/// rule). The kind has the parameters of `inner` and those of the guard. Throws:
/// Error{invalid_argument} if `inner` has one of these already.
PolicyKind guarded_kind(PolicyKind inner);

/// The parameters of the guard, all called `guard_...`.
std::vector<PolicyParameter> guard_parameters();

}  // namespace vma::inline v1
