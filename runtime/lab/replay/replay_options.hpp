#pragma once

#include "lab/replay/replay_scheduler.hpp"

#include <vma/migration.hpp>
#include <vma/snapshot.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace vma {

/// When accesses arrive.
enum class Pacing {
  timed,    ///< At their time, or later if their device has no room for them.
  at_once,  ///< As soon as their device has room: times only give the order.
};

/// What happens to a request of a closed loop whose memory does not fit, see `ReplayAdmission`.
enum class Admission {
  none,     ///< It starts anyway: its memory goes elsewhere, or is lost.
  queue,    ///< It waits until there is room.
  preempt,  ///< So it does; and the youngest request gives way if a running one needs more.
};
/// The memory that requests have to fit into.
enum class AdmissionMemory {
  all,  ///< All that their device can reach: its HBM, those of its peers, and host memory.
  hbm,  ///< That of their device.
};

/// What a policy is told of uses.
enum class ToldUses {
  exact,          ///< The bytes of each access, as it proceeds.
  launches,       ///< What the runtime makes of launches that pass where each access begins.
  base_pointers,  ///< The same of launches that pass where the object begins.
};

struct ReplayOptions {
  Pacing pacing = Pacing::timed;
  std::uint64_t chunk_bytes = std::uint64_t{32} << 20;  ///< Used if the trace gives no size.
  std::size_t queue_max = 64;  ///< Accesses that may wait at one device; then the trace waits.
  /// Models programs that wait for what they have launched. An access that arrives when the earlier
  /// ones at its device may have ended (in half of their time in its own HBM) is the first of a
  /// round. It has a longer launch gap, and a gate waits for all launched accesses of the device.
  bool rounds = false;
  /// If not zero, a program launches work of about this duration in one batch, waits for all of it,
  /// and launches the next. A gate waits for all launched work, and the first kernel of each batch
  /// has the longer launch gap.
  Time ahead{0};
  std::size_t spread_max = 256;  ///< Accesses with a duration that run on one device at a time.
  /// An access with a longer duration is reported to the policy as it proceeds: a use whenever so
  /// much time has passed.
  Time use_interval = std::chrono::milliseconds(10);
  ToldUses told_uses = ToldUses::exact;
  double unseen = 0;  ///< The share of objects that no launch shows. Not with `ToldUses::exact`.
  /// Shorter steps of a repeated task are replayed several at once, for at most so long.
  Time steps_span = std::chrono::milliseconds(100);
  Time collect_every = std::chrono::milliseconds(1);
  Time tick = std::chrono::milliseconds(10);
  /// An allocation without room waits this long for moves; then it goes where there is room.
  Time room_limit = std::chrono::milliseconds(500);
  Time window = std::chrono::milliseconds(100);  ///< Length of the report's windows.
  Time stall_budget{0};  ///< Per second, as enforced by the mover; 0: no limit.
  /// A gate, or a suspension: all work stands at once, in the middle of kernels, and the stop takes
  /// `ReplayMachine::suspension` longer.
  StopKind stop = StopKind::gate;
  /// Of a stop, as `MigrateOptions::max_stall`: limits how many chunks share it. 0: none do.
  Time max_stall = std::chrono::milliseconds(2);
  Admission admission = Admission::preempt;
  AdmissionMemory admission_memory = AdmissionMemory::all;
  ReplaySchedulerLimits scheduler;
  /// Called at each tick if it is set. What it throws ends the replay.
  std::function<void()> at_tick;
};

}  // namespace vma
