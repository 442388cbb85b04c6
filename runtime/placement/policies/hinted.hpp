#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// Rule: a hint says how many passes a GPU will make over a chunk. The chunk moves to that GPU's
/// HBM if trust x passes x bytes x (seconds per byte from where it is, minus seconds per byte at
/// home) is at least the cost of the move; at once if the use begins within `lead` or at no known
/// time, otherwise when it is that near. For chunks without a hint, and once trust is below
/// `trust_least`, the rule of `counter` decides. Until a trusted hint has come true or failed, its
/// chunk is left where the hint wants it.
///
/// A hint has come true once its GPU has used half of what was announced; it has failed if that did
/// not happen by its `until` or, if it has none, by `patience` after the announced time. One that
/// announces no pass does neither: nothing is used. Trust begins at 1, loses the share `distrust`
/// with each hint that fails, and regains half that share of what it lacks with each that comes
/// true. Hints are watched whether they are followed or not, so that trust can return.
///
/// From: P. Indyk, F. Mallmann-Trenn, S. Mitrovic, R. Rubinfeld, "Online Page Migration with ML
/// Advice", AISTATS 2022: predictions that are followed while they are good, with a fallback that
/// is competitive without any.
PolicyKind hinted_kind();

}  // namespace vma::inline v1
