#pragma once

#include "bench/samples.hpp"
#include "migrate/copying/live_copier.hpp"

#include <vma/runtime.hpp>

#include <chrono>
#include <cstdint>
#include <vector>

namespace vma {

/// What differs between the runtimes of the live benchmarks.
struct LiveSettings {
  std::chrono::microseconds stall_budget{0};  ///< Of each second; zero is no limit.
  LiveTuning tuning{};
};

/// A runtime with these settings, else as the environment says, with nothing in its caches, which
/// hold the largest allocation of any benchmark. The one before, with other settings or asked for
/// by `fresh`, is closed: a process has one at a time on GPUs. Requires: nothing of that is in use.
Runtime& live_runtime(const LiveSettings& settings = {}, bool fresh = false);
void close_live_runtime();

/// Throws: Unavailable with fewer than `gpus_min`.
std::vector<Location> live_gpus(std::size_t gpus_min);

/// How long a case is measured, about: `--seconds`.
double case_seconds();
void set_case_seconds(double seconds);

}  // namespace vma
