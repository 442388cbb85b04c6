#pragma once

#include "driver/spare_kernels.hpp"
#include "migrate/gates/gate.hpp"
#include "migrate/moves/live_move.hpp"

#include <cstdint>
#include <optional>

namespace vma {

/// One try to stop the attached streams and switch one chunk: closes a gate, settles or copies,
/// commits, switches, opens. Whatever it comes to, nothing stands afterwards. If it does not come
/// to a switch, work of ours may still run on the chunk: `LiveMove::stand_down` sees to its end.
///
/// Requires, of `run`: the caller holds the allocation's `operations()`. One thread, once.
class ChunkStop {
 public:
  ChunkStop(const MoveParts& parts, const MigrationTask& task, LiveChunk& chunk, bool settle);

  /// What it was given up for, and nothing has changed; nothing if the chunk was switched.
  /// Throws: Error; the transaction says where the chunk is then.
  std::optional<Gate::Refusal> run(Phases& phases);

  const GateTimes& times() const noexcept { return times_; }
  /// That stood, or should have.
  std::size_t streams() const noexcept { return plan_.stops.size(); }
  bool all_stood() const noexcept { return all_stood_; }
  /// Streams were asked to stand.
  bool tried() const noexcept { return tried_; }
  /// No stream stood, though settling work did and the backlogs let expect it long ago.
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
  std::optional<Gate::Refusal> stop_and_switch(Gate& gate, Phases& phases);
  std::optional<Gate::Refusal> fill_target(Phases& phases);
  std::optional<Gate::Refusal> switch_slot(Gate& gate, Phases& phases);
  void ask();
  bool settle(TimePoint deadline);
  bool copy(TimePoint deadline);
  void let_all_go() noexcept;

  const MoveParts& parts_;
  Driver& driver_;
  Clock& clock_;
  const MigrationTask& task_;
  LiveChunk& chunk_;
  /// Streams have come or gone during too many tries: this one has them wait for its end.
  const bool insists_;
  std::optional<MutexLock> nobody_attaches_;     // For all of a try that insists.
  std::optional<SpareKernels::Pause> no_loads_;  // While anything stands.
  std::optional<AttachedStreams::Use> streams_;  // From its turn until everything goes on.
  GatePlan plan_;
  std::uint64_t attaches_ = 0;  // Of the allocation, before the streams were asked for.
  SlowCallTurn slow_call_turn_;
  const bool settle_;
  GateTimes times_;
  Watchdog::Ticket ticket_ = Watchdog::Ticket::none;
  TimePoint asked_{0};
  TimePoint let_through_{-ask_period};  // When a grant of ours last returned: not yet.
  bool tried_ = false;
  bool all_stood_ = false;
  bool overdue_ = false;
};

}  // namespace vma
