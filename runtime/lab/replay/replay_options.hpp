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
  at_once,  ///< As soon as their device has room for them: the times give the order only.
};

struct ReplayOptions {
  Pacing pacing = Pacing::timed;
  std::uint64_t chunk_bytes = std::uint64_t{32} << 20;  ///< Where the trace does not say.
  std::size_t queue_max = 64;  ///< Accesses that wait at one device; the trace waits for room.
  /// An access that comes so late that those before it at its device may have ended (in half of
  /// what they take in its own HBM) was launched by a program that waited for these: the first of a
  /// round. Its gap is longer, and what has been launched ends before a gate has the device.
  bool rounds = false;
  /// Where not zero, a device's program launches about so much time's work at once and waits for
  /// all of it, then for the next: what it has launched ends before a gate has the device, and the
  /// first kernel of each batch has the longer gap.
  Time ahead{0};
  std::size_t spread_max = 256;  ///< Accesses with a duration that run at one device at a time.
  Time drain = std::chrono::milliseconds(1);
  Time tick = std::chrono::milliseconds(10);
  /// An allocation without room waits for moves so long, then goes where there is room.
  Time room_limit = std::chrono::milliseconds(500);
  Time window = std::chrono::milliseconds(100);  ///< Of the report.
  Time stall_budget{0};  ///< Of a second, as the mover keeps it; 0: no limit.
  ReplaySchedulerLimits scheduler;
};

}  // namespace vma
