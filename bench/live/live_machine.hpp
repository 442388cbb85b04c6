#pragma once

#include "bench/harness/machine.hpp"
#include "base/mutex.hpp"
#include "migrate/copying/live_copier.hpp"

#include <vma/runtime.hpp>

#include <chrono>
#include <cstdint>
#include <vector>

namespace vma {

/// The settings in which the runtimes of the live benchmarks differ.
struct LiveSettings {
  std::chrono::microseconds stall_budget{0};  ///< Per second; zero: no limit.
  LiveTuning tuning{};
  /// Memory moves under holds beside writers: see `live_submissions`.
  bool holds = false;
};

/// A runtime with these settings, otherwise configured by the environment. Its caches are empty,
/// and large enough for the largest allocation of any benchmark. If the settings changed or `fresh`
/// is set, closes the previous runtime first, since a process can have only one at a time on GPUs.
/// Requires: nothing of the previous runtime is in use.
Runtime& live_runtime(const LiveSettings& settings = {}, bool fresh = false);
void close_live_runtime();

/// Held by whoever launches work while memory moves under a hold: what another thread submits
/// between a hold's two driver calls for a context is not held (`Hold`). Null if `holds` is not
/// set.
Mutex* live_submissions();

/// Throws: Unavailable with fewer than `gpus_min`.
std::vector<Place> live_gpus(std::size_t gpus_min);

}  // namespace vma
