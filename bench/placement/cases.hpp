#pragma once

#include "bench/harness/samples.hpp"

#include <vma/runtime.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vma {

/// The approximate duration of a measurement, by the processor's clock: `--seconds`.
double case_seconds();
void set_case_seconds(double seconds);
/// The policy of the cases that let one decide: VMART_BENCH_POLICY, or "cost_benefit".
std::string case_policy();
/// VMART_BENCH_BYTES_MAX (16 GiB), but at least `least`.
std::uint64_t bytes_max(std::uint64_t least);
std::vector<Location> gpus_of(Runtime& runtime);

// The cases of bench/placement_bench, with one file each. Each opens its own runtimes, one after
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
