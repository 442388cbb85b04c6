#include "placement/built_in_policies.hpp"

#include "placement/bw_interleave.hpp"
#include "placement/clean_copy.hpp"
#include "placement/coin_flip.hpp"
#include "placement/cost_benefit.hpp"
#include "placement/counter.hpp"
#include "placement/harvest.hpp"
#include "placement/hinted.hpp"
#include "placement/histogram_fill.hpp"
#include "placement/latency_balance.hpp"
#include "placement/lifetime_class.hpp"
#include "placement/size_threshold.hpp"
#include "placement/static_spill.hpp"
#include "placement/stay_put.hpp"
#include "placement/two_touch.hpp"
#include "placement/watermark_age.hpp"

namespace vma {

const PolicyRegistry& built_in_policies() {
  static const PolicyRegistry registry = [] {
    PolicyRegistry kinds;
    // A policy is one include above and one line here.
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
    return kinds;
  }();
  return registry;
}

std::unique_ptr<Policy> make_policy(const std::string& text) {
  return built_in_policies().make(text);
}

}  // namespace vma
