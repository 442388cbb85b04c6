#pragma once

#include "lab/replay/replay_scheduler.hpp"

#include <vma/snapshot.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace vma {

/// When accesses come.
enum class Pacing {
  timed,    ///< At their time, or when their device has room for them.
  at_once,  ///< As soon as their device has room for them: the times only give the order.
};

struct ReplayOptions {
  Pacing pacing = Pacing::timed;
  std::uint64_t chunk_bytes = std::uint64_t{32} << 20;  ///< If the trace does not say.
  std::size_t queue_max = 64;  ///< Accesses that wait at one device; the trace waits for room.
  /// An access that arrives so late that those before it at its device may have ended (in half of
  /// their time in its own HBM) was launched by a program that waited for these: it is the first of
  /// a round. Its gap is longer, and all launched accesses end before a gate gets the device.
  bool rounds = false;
  /// If not zero, a device's program launches work of about this duration at once and waits for all
  /// of it, then for the next: launched work ends before a gate gets the device, and the first
  /// kernel of each batch has the longer gap.
  Time ahead{0};
  std::size_t spread_max = 256;  ///< Accesses with a duration that run at one device at a time.
  Time drain = std::chrono::milliseconds(1);
  Time tick = std::chrono::milliseconds(10);
  /// An allocation without room waits this long for moves, then goes where there is room.
  Time room_limit = std::chrono::milliseconds(500);
  Time window = std::chrono::milliseconds(100);  ///< In the report.
  Time stall_budget{0};  ///< Per second, as enforced by the mover; 0: no limit.
  ReplaySchedulerLimits scheduler;
};

}  // namespace vma
