#pragma once

#include "placement/policies/policy_registry.hpp"

#include <vma/policy.hpp>

#include <memory>
#include <string>
#include <vector>

namespace vma {

/// All policies that the library itself provides.
const PolicyRegistry& built_in_policies();

/// `PolicyRegistry::make` for the built-in policies.
std::unique_ptr<Policy> make_policy(const std::string& text);

}  // namespace vma

namespace vma::inline v1 {

// The policies, one a file; its class says what it does. `auto` is the policy to start with.
PolicyKind auto_kind();
PolicyKind bw_interleave_kind();
PolicyKind clean_copy_kind();
PolicyKind coin_flip_kind();
PolicyKind counter_kind();
/// The kind has the parameters of `inner` and those of the guard. Throws: Error{invalid_argument}
/// if `inner` has one of these already.
PolicyKind guarded_kind(PolicyKind inner);
PolicyKind harvest_kind();
PolicyKind hinted_kind();
PolicyKind histogram_fill_kind();
PolicyKind latency_balance_kind();
PolicyKind lifetime_class_kind();
PolicyKind size_threshold_kind();
PolicyKind static_spill_kind();
PolicyKind stay_put_kind();
PolicyKind two_touch_kind();
PolicyKind watermark_age_kind();

/// The parameters of the guard, all called `guard_...`.
std::vector<PolicyParameter> guard_parameters();

}  // namespace vma::inline v1
