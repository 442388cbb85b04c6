#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// Rule: a hint says that a GPU will go over a chunk so many times. The chunk moves to that GPU's
/// HBM if trust x passes x bytes x (seconds a byte from where it lies, less seconds a byte at home)
/// is at least the cost of the move; at once if the use begins within `lead` or at no known time,
/// else when it comes so near. For what nobody announced, and once trust is below `trust_least`,
/// the rule of `counter` decides. Until a trusted hint has come true or failed, its chunk is left
/// where the hint wants it.
///
/// A hint has come true once its GPU has used half of what was announced, and has failed if that
/// was not so `patience` after the announced time. Trust begins at 1, loses `distrust` of itself
/// with each hint that fails, and wins back half as much of what it lacks with each that comes
/// true. Hints are watched whether they are believed or not, so that trust can return.
///
/// From: P. Indyk, F. Mallmann-Trenn, S. Mitrovic, R. Rubinfeld, "Online Page Migration with ML
/// Advice", AISTATS 2022: predictions that are followed while they are good, with a fallback that
/// is competitive without any.
PolicyKind hinted_kind();

}  // namespace vma::inline v1
