#include "lab/policies/lab_policies.hpp"

#include "placement/policies/built_in_policies.hpp"

namespace vma {

std::vector<PolicyKind> research_policies() {
  std::vector<PolicyKind> kinds;
  for (const auto kind : research_kinds) kinds.push_back(kind());
  return kinds;
}

const PolicyRegistry& lab_policies() {
  static const PolicyRegistry registry = [] {
    PolicyRegistry kinds = built_in_policies();
    for (PolicyKind& kind : research_policies()) kinds.add(std::move(kind));
    return kinds;
  }();
  return registry;
}

}  // namespace vma
