#pragma once

#include "base/units.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>

namespace vma {

/// What the planner accepts, whatever a policy wants.
struct PlannerLimits {
  /// How long a chunk stays at a place after it arrived.
  Time least_residence = std::chrono::seconds(1);
  /// This many moves within the window are thrashing, and pin the chunk. After NVIDIA's managed
  /// memory (`uvm_perf_thrashing.c` of open-gpu-kernel-modules: counted events on a block pin it in
  /// place for a while, and others access it remotely). 0: no rule.
  std::uint32_t thrash_moves = 3;
  Time thrash_window = std::chrono::seconds(2);
  Time thrash_pin = std::chrono::seconds(1);
  /// A victim's use per byte, times this, must be less than that of the chunk it makes room for.
  /// After AutoTiering (ATC'21), which evicts only from lower levels.
  double colder_factor = 1;
  /// From one place to another. 0: no limit.
  double route_bytes_s = 0;
  double route_burst_bytes = 256.0 * static_cast<double>(MiB);  ///< At once, after a pause.
  std::uint64_t route_under_way_bytes = 0;  ///< Accepted and not ended. 0: no limit.
  /// Seconds per second that programs' streams may be stopped for moves. 0: no limit.
  double stall_share = 0.06;
  Time stall_burst = std::chrono::milliseconds(60);
  /// The stall budget of so much time may be spent ahead by moves that are predicted to pay: as
  /// long as the default policies expect use to go on. 0: never.
  Time stall_ahead = std::chrono::seconds(4);
  /// How many times what their stops cost such moves must be predicted to save.
  double ahead_gain = 2;
  /// How soon after the last of them they must have saved that; half of that time in which the
  /// budget is paid back.
  Time ahead_within = std::chrono::seconds(2);
  /// Per plan; further proposals are refused unseen.
  std::size_t moves_max = 4096;
};

}  // namespace vma
