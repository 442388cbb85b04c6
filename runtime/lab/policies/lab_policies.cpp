#include "lab/policies/lab_policies.hpp"

#include "placement/policies/built_in_policies.hpp"

namespace vma {

std::vector<PolicyKind> research_policies() {
  return {coin_flip_kind(),      histogram_fill_kind(), latency_balance_kind(),
          lifetime_class_kind(), size_threshold_kind(), two_touch_kind(),
          watermark_age_kind()};
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
