#include "placement/policies/built_in_policies.hpp"

#include "placement/policies/bw_interleave.hpp"
#include "placement/policies/clean_copy.hpp"
#include "placement/policies/coin_flip.hpp"
#include "placement/policies/cost_benefit.hpp"
#include "placement/policies/counter.hpp"
#include "placement/policies/guarded.hpp"
#include "placement/policies/harvest.hpp"
#include "placement/policies/hinted.hpp"
#include "placement/policies/histogram_fill.hpp"
#include "placement/policies/latency_balance.hpp"
#include "placement/policies/lifetime_class.hpp"
#include "placement/policies/size_threshold.hpp"
#include "placement/policies/static_spill.hpp"
#include "placement/policies/stay_put.hpp"
#include "placement/policies/two_touch.hpp"
#include "placement/policies/watermark_age.hpp"
#include "placement/repeating/repeating.hpp"

namespace vma {

const PolicyRegistry& built_in_policies() {
  static const PolicyRegistry registry = [] {
    PolicyRegistry kinds;
    // A policy is one include above and one line here.
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
