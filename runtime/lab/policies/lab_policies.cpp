#include "lab/policies/lab_policies.hpp"

#include "placement/policies/built_in_policies.hpp"

namespace vma {

std::vector<PolicyKind> research_policies() {
  std::vector<PolicyKind> kinds;
  for (const auto kind : research_kinds) kinds.push_back(kind());
  return kinds;
}

const PolicyRegistry& lab_policies() {
  static const PolicyRegistry registry = known_policies(research_policies());
  return registry;
}

}  // namespace vma
