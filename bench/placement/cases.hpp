#pragma once

#include "bench/harness/machine.hpp"

#include <vma/runtime.hpp>

#include <cstdlib>
#include <string>

namespace vma {

/// The policy of the cases that let one decide: VMART_BENCH_POLICY, or "cost_benefit".
inline std::string case_policy() {
  const char* const policy = std::getenv("VMART_BENCH_POLICY");
  return policy == nullptr || *policy == '\0' ? "cost_benefit" : policy;
}

// The cases of `placement_bench`, with one file each. Each opens its own runtimes, one after
// the other.
void register_advise_cases();
void register_tick_cases();
void register_idle_cases();
void register_park_cases();
void register_drift_cases();
void register_flicker_cases();
void register_oversubscribed_cases();
void register_prediction_cases();

}  // namespace vma
