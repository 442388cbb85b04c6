#pragma once

#include "placement/policies/policy_registry.hpp"

#include <vma/policy.hpp>

#include <memory>
#include <string>
#include <vector>

namespace vma {

/// The policies that the library itself provides: `auto`, the one to start with, with what it is
/// made of (`placement/auto`), and three that are simpler. The lab has more.
const PolicyRegistry& built_in_policies();

/// The built-in policies and `own`. Throws: Error{invalid_argument} for an invalid kind, or one
/// whose name is taken.
PolicyRegistry known_policies(const std::vector<PolicyKind>& own);

/// `PolicyRegistry::make` for the built-in policies.
std::unique_ptr<Policy> make_policy(const std::string& text);

/// Whether nothing that it decides depends on what was used: `static` and `stay_put`.
bool ignores_uses(const Policy& policy);

}  // namespace vma

namespace vma::inline v1 {

/// The rule stands at the class, in built_in_policies.cpp.
PolicyKind counter_kind();
/// `static`: memory is placed once, by `first_touch`, and never moved.
PolicyKind static_kind();
/// `stay_put`: memory stays where it was put. An allocation gets the default, the fastest place of
/// the device with room; nothing moves. It replaces a policy that misbehaves. Its source is the
/// behaviour of every program without a policy.
PolicyKind stay_put_kind();

}  // namespace vma::inline v1
