#include "placement/policies/built_in_policies.hpp"

#include "placement/policies/cost_benefit.hpp"
#include "placement/repeating/repeating.hpp"

namespace vma {

const PolicyRegistry& built_in_policies() {
  static const PolicyRegistry registry = [] {
    PolicyRegistry kinds;
    // A policy is one line here, and one in the header.
    kinds.add(auto_kind());
    kinds.add(bw_interleave_kind());
    kinds.add(clean_copy_kind());
    kinds.add(coin_flip_kind());
    kinds.add(cost_benefit_kind());
    kinds.add(counter_kind());
    kinds.add(harvest_kind());
    kinds.add(hinted_kind());
    kinds.add(histogram_fill_kind());
    kinds.add(latency_balance_kind());
    kinds.add(lifetime_class_kind());
    kinds.add(size_threshold_kind());
    kinds.add(static_spill_kind());
    kinds.add(stay_put_kind());
    kinds.add(two_touch_kind());
    kinds.add(watermark_age_kind());
    kinds.add_around("guarded", guarded_kind);
    kinds.add_around("repeating", repeating_kind);
    return kinds;
  }();
  return registry;
}

std::unique_ptr<Policy> make_policy(const std::string& text) {
  return built_in_policies().make(text);
}

}  // namespace vma
