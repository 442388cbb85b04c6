#pragma once

#include "placement/policies/policy_registry.hpp"

#include <memory>
#include <string>

namespace vma {

/// Every policy that the library has of itself.
const PolicyRegistry& built_in_policies();

/// `PolicyRegistry::make` of the built-in ones.
std::unique_ptr<Policy> make_policy(const std::string& text);

}  // namespace vma
