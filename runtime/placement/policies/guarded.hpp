#pragma once

#include <vma/policy.hpp>

#include <memory>
#include <vector>

namespace vma::inline v1 {

/// `guarded+NAME`: another policy, which decides only as long as its moves pay.
///
/// Rule: a shadow says where each chunk would lie under `static` (`StaticShadow`). Each use is
/// charged with the seconds that it takes where the chunk lies and with those at the shadow's
/// place; a saving counts only as far as the paths hold the GPU up (`PathLimits`). Each move is
/// charged with its time and with its stall for each GPU that works. The difference is an account
/// (`GuardAccount`). While it has a balance, the inner policy decides. Once it is overdrawn, only
/// the moves of one chunk in 32 are made, chosen by hash, with the victims that they need. Chunks
/// that lie worse than in the shadow go back there once their uses have lost as much as the way
/// back costs. The uses of chunks that the policy has not moved have an account of their own: while
/// that is overdrawn, memory is placed as by `static`. The inner policy sees everything all the
/// time, so it does not start anew.
///
/// From: set dueling, M. Qureshi et al., "Adaptive Insertion Policies for High Performance
/// Caching", ISCA 2007: a few sets follow each policy all the time, and tell which one the others
/// are to follow. The shadow takes the place of the sets that follow `static`.
///
/// The kind has the parameters of `inner` and those of `guard_parameters`. Throws:
/// Error{invalid_argument} if `inner` has one of these already.
PolicyKind guarded_kind(PolicyKind inner);

/// `auto`: the policy to start with. Rule: `cost_benefit`, and predictions where the program
/// repeats itself (`repeating_kind`), under the guard; savings count only where a path holds a GPU
/// up. The parameters are those of `guarded+repeating+cost_benefit`; only `limit` has another
/// default.
PolicyKind auto_kind();

/// The parameters of the guard, all called `guard_...`.
std::vector<PolicyParameter> guard_parameters();

/// A guard around `inner`, with the values of `guard_parameters`.
std::unique_ptr<Policy> make_guarded(std::unique_ptr<Policy> inner, const PolicyValues& values);

}  // namespace vma::inline v1
