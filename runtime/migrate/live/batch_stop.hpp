#pragma once

#include "driver/spare_kernels.hpp"
#include "migrate/gates/gate.hpp"
#include "migrate/live/live_ranges.hpp"
#include "migrate/migration/move_parts.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace vma {

/// One try to stop the attached streams and switch the chunks of a batch: closes a gate, commits,
/// settles or copies and switches one chunk after the other, opens. Chunks that are not ready in
/// time are left. Whatever the outcome, nothing is stopped afterwards. Without a switch, work of
/// the runtime may still run on a chunk: `LiveStaging::stand_down` handles its end.
///
/// For `run`. Requires: the caller holds `operations()` of each allocation of the batch. One
/// thread, once.
class BatchStop {
 public:
  /// The gate opens once `max_stall` has passed, apart from the time for the first chunk.
  BatchStop(const MoveParts& parts, const LiveRanges& ranges, LiveBatch& batch,
            std::chrono::nanoseconds max_stall);

  /// None if a chunk was switched; `LiveChunk::switched` tells which were. Otherwise why the try
  /// was given up, and nothing has changed. Throws: Error; the transactions say where the chunks
  /// are then.
  std::optional<Gate::Refusal> run();

  const GateTimes& times() const noexcept { return times_; }
  /// The number of streams that were stopped, or should have been.
  std::size_t streams() const noexcept { return plan_.stops.size(); }
  bool all_stood() const noexcept { return all_stood_; }
  /// Whether streams were told to stop.
  bool tried() const noexcept { return tried_; }
  /// No stream arrived, though settling work waited and the backlogs predicted an arrival long ago.
  bool overdue() const noexcept { return overdue_; }

 private:
  static constexpr std::chrono::milliseconds ask_period{1};

  GateLimits limits();
  bool given_up() const noexcept;
  void keep_streams();
  void name_streams();
  std::optional<Gate::Refusal> look_and_arm(Gate& gate, GatePost& post);
  std::optional<Gate::Refusal> pause_loads();
  void arm(GatePost& post);
  bool go();
  void let_settling_go() noexcept;
  std::optional<Gate::Refusal> stop_and_switch(Gate& gate);
  std::optional<Gate::Refusal> begin_filling();
  std::optional<Gate::Refusal> switch_first(Gate& gate);
  void switch_others();
  void note_filled(const LiveChunk& first);
  bool fill(LiveChunk& chunk, TimePoint deadline);
  void switch_slot(LiveChunk& chunk);
  void ask();
  void let_all_go() noexcept;

  const MoveParts& parts_;
  Driver& driver_;
  Clock& clock_;
  const LiveRanges& ranges_;
  LiveBatch& batch_;
  const std::vector<Address> allocations_;
  const std::chrono::nanoseconds max_stall_;
  /// Streams were attached or detached during too many tries: this try blocks that until its end.
  const bool insists_;
  LiveCopier* const settler_;                    // Null if no chunk of the batch settles.
  std::optional<MutexLock> nobody_attaches_;     // For the whole of a try that insists.
  std::optional<SpareKernels::Pause> no_loads_;  // While anything is stopped.
  std::optional<AttachedStreams::Use> streams_;  // From its turn until everything continues.
  GatePlan plan_;
  std::uint64_t last_attach_ = 0;  // To the allocations, before the streams were listed.
  SlowCallTurn slow_call_turn_;
  GateTimes times_;
  Watchdog::Ticket ticket_ = Watchdog::Ticket::none;
  TimePoint asked_{0};
  TimePoint closed_{0};
  TimePoint let_through_{-ask_period};  // When a grant of ours last returned: not yet.
  bool tried_ = false;
  bool all_stood_ = false;
  bool overdue_ = false;
};

}  // namespace vma
