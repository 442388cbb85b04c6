#pragma once

#include "base/units.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>

namespace vma {

/// What the planner lets through, whatever a policy wants.
struct PlannerLimits {
  /// A chunk stays where it came to for so long.
  Time least_residence = std::chrono::seconds(1);
  /// So many moves within the window are thrashing, and hold the chunk where it is. After NVIDIA's
  /// managed memory (`uvm_perf_thrashing.c` of open-gpu-kernel-modules: counted events on a block
  /// pin it to where it lies for a while, and others use it from afar). 0: no rule.
  std::uint32_t thrash_moves = 3;
  Time thrash_window = std::chrono::seconds(2);
  Time thrash_pin = std::chrono::seconds(1);
  /// A victim's use a byte, times this, is less than that of what it makes room for. After
  /// AutoTiering (ATC'21), which evicts what is of a lower level only.
  double colder_factor = 1;
  /// From one place to another. 0: no limit.
  double route_bytes_s = 0;
  double route_burst_bytes = 256.0 * static_cast<double>(MiB);  ///< At once, after a pause.
  std::uint64_t route_under_way_bytes = 0;  ///< Accepted and not ended. 0: no limit.
  /// Seconds a second that programs' streams may stand for moves. 0: no limit.
  double stall_share = 0.06;
  Time stall_burst = std::chrono::milliseconds(60);
  /// Of one plan; what is beyond is refused unseen.
  std::size_t moves_max = 4096;
};

}  // namespace vma
