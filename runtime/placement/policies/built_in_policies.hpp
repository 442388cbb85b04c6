#pragma once

#include "placement/policies/policy_registry.hpp"

#include <memory>
#include <string>

namespace vma {

/// All policies that the library itself provides.
const PolicyRegistry& built_in_policies();

/// `PolicyRegistry::make` for the built-in policies.
std::unique_ptr<Policy> make_policy(const std::string& text);

}  // namespace vma
