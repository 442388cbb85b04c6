#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

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

}  // namespace vma::inline v1
