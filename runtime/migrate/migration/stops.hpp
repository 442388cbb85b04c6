#pragma once

#include "base/mutex.hpp"
#include "driver/spare_kernels.hpp"
#include "memory/memory.hpp"
#include "migrate/gates/attached_streams.hpp"
#include "migrate/gates/gate.hpp"
#include "migrate/gates/gate_post.hpp"
#include "migrate/gates/hold.hpp"
#include "migrate/stops/stall_forecast.hpp"
#include "migrate/stops/stop_stats.hpp"
#include "migrate/stops/suspension_check.hpp"
#include "migrate/stops/watchdog.hpp"

#include <vma/migration.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace vma {

class Suspension;

/// When the work was stopped, and when it continued; both zero if it never was.
struct HeldTimes {
  TimePoint stopped{0}, opened{0};
};

struct HoldLimits {
  /// How long held work may take to quiesce.
  std::chrono::nanoseconds rest_limit{0};
  /// How long one driver call, or the copy of one chunk, may take while work is held.
  std::chrono::nanoseconds patience{0};
};

struct GatedLimits {
  /// Of the tries to close the gate.
  std::chrono::nanoseconds close{0};
  /// How long it may be closed before a slot goes dark.
  std::chrono::nanoseconds patience{0};
  /// From its first arrival to its last; each try doubles it, up to the second one.
  std::chrono::nanoseconds arrivals{0}, arrivals_max{0};
};

/// How the moves of one runtime stop work: the attached streams, what holds and gates use, and the
/// watchdog that opens them. Any thread.
///
/// One hold, suspension or gate at a time: a thread that stops work has the turn, through
/// `hold_while` and `suspend_while`, and through a `Turn` for live moves.
class Stops {
 public:
  /// The turn to close gates: while it lives, no other thread stops work. One thread.
  class Turn {
   public:
    /// Blocks: while another thread stops work.
    explicit Turn(Stops& stops) VMART_NO_THREAD_ANALYSIS;
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    GatePost& gate_post() const noexcept { return gate_post_; }
    /// As `Stops::hold_while` uses it.
    HoldPost& hold_post(BoundStream stream) VMART_NO_THREAD_ANALYSIS {
      return stops_.hold_post(stream);
    }

   private:
    Stops& stops_;
    const MutexLock lock_;
    GatePost& gate_post_;
  };

  /// Creates a context of the runtime's own on a GPU, or returns the one that is there.
  using OwnContext = std::function<ContextHandle(DeviceId)>;

  /// `suspends`: work may be suspended.
  Stops(Memory& memory, bool suspends, OwnContext own_context);
  /// Requires: nothing is stopped, and nothing will be.
  ~Stops();
  Stops(const Stops&) = delete;
  Stops& operator=(const Stops&) = delete;

  /// Runs `body` while all contexts in use are stopped, and records that in the report and in
  /// `times`. All holds with a stream of one context use the stream of the first one, which nothing
  /// else uses. `before`, if not null, enqueues what runs under the hold. Requires: the caller
  /// holds no turn. Throws: what `Hold` and `body` throw; nothing is stopped then.
  void hold_while(BoundStream stream, const HoldLimits& limits, MigrationReport& report,
                  HeldTimes& times, const std::function<void(StoppedWork&)>& body,
                  BeforeHold* before = nullptr);
  /// Whether a move between these places may suspend the work of the process instead of holding it:
  /// that waits for nothing, and disturbs no stream. Not if a GPU loses reach, since work that runs
  /// there may still need the memory; nor if a `SuspensionCheck` has not shown it to work on each
  /// GPU on which the program has a context, and on one at least. Blocks: for these checks, which
  /// first create contexts of the runtime's own. Requires: the caller holds no turn.
  bool may_suspend(Place from, Place to);
  /// What the check finds on that GPU. Blocks and requires: as `may_suspend`.
  SuspensionFinding check_suspension(DeviceId device);
  /// The same for a context of the program there, from `unchecked`.
  SuspensionFinding check_suspension(DeviceId device, ContextHandle program);
  /// A context of the program on a GPU of which the check should find out; none if it is decided or
  /// was tried a moment ago, or if the program has none there.
  ContextHandle unchecked(DeviceId device);
  /// As `may_suspend`, from what is known: does not block.
  bool is_known_to_suspend(Place from, Place to);
  /// Whether a gate is worth trying where work can be suspended: all streams that may use the
  /// allocation would arrive within `soon`. Finds out by a write on each stream of which that is
  /// not known, which stops nothing. Blocks: for that long. Requires: the caller holds no turn.
  bool gate_arrives_soon(Address allocation);
  static constexpr std::chrono::milliseconds soon{1};
  /// How long a suspension takes alone, as the checks have measured it.
  StallForecast::Suspending suspending() const;
  /// Whether that was asked for.
  bool suspends() const noexcept { return suspends_; }
  /// The GPUs whose work may use the memory there: all, if it is suspended, since nobody knows.
  std::set<DeviceId> users(Address allocation, bool suspended) const;
  /// The same by a suspension. Copies of `body` run in contexts of the runtime's own. A refusal:
  /// the driver does not suspend, nothing has changed, and `may_suspend` says no for a while.
  /// Requires: `may_suspend` for all that moves; the caller holds no turn. Throws: Error{busy} if
  /// copies of the program are in the way, and what `body` throws; the work goes on then.
  std::optional<StopRefusal> suspend_while(const HoldLimits& limits, MigrationReport& report,
                                           HeldTimes& times,
                                           const std::function<void(StoppedWork&)>& body);
  /// The same at one gate, by which all attached streams stop that may use the allocation: for
  /// moves that processes decide together. Those of this process alone are switched by batches
  /// (`BatchStop`), which stop for less. Throws: Error{busy} if the streams do not stop within the
  /// limit, and what `body` throws; they run then. Requires: the caller holds no turn.
  void gate_while(const Allocation& allocation, const GatedLimits& limits, MigrationReport& report,
                  HeldTimes& times, const std::function<void(StoppedWork&)>& body);
  /// Called before `hold_while` and `suspend_while` stop anything, under both turns. Requires: none
  /// has begun.
  void before_stopping(std::function<void()> run) { before_stopping_ = std::move(run); }
  /// Closes it. A refusal, of copies of the program or of the driver: nothing is suspended. If the
  /// driver refuses twice, `may_suspend` says no until the check has been tried again.
  std::optional<StopRefusal> close(Suspension& suspension, TimePoint deadline);
  /// Closes it. A refusal: work has not ended at the deadline, or a stream captures.
  std::optional<StopRefusal> close(Hold& hold, TimePoint deadline);
  /// No code of the runtime's is loaded on a GPU as long as `pause` lives. A refusal if a load in
  /// progress does not end within the limit: it may itself wait for work of the program.
  static std::optional<StopRefusal> pause_loads(std::optional<SpareKernels::Pause>& pause,
                                                Clock& clock, std::chrono::nanoseconds limit);
  /// Threads that wait for their turn. A gate that no stream has arrived at for long gives its turn
  /// up for them.
  struct Waiting {
    int holds = 0, gates = 0;
    bool any() const noexcept { return holds + gates > 0; }
  };
  Waiting waiting() const noexcept { return {holds_waiting_, gates_waiting_}; }

  AttachedStreams& attached() noexcept { return attached_; }
  const AttachedStreams& attached() const noexcept { return attached_; }
  Watchdog& watchdog() noexcept { return watchdog_; }
  /// Those of a kind. Refusals of all kinds are among those of gates.
  StopStats& stats(StopKind kind = StopKind::gate) noexcept {
    return stats_[static_cast<std::size_t>(kind)];
  }
  const StopStats& stats(StopKind kind = StopKind::gate) const noexcept {
    return stats_[static_cast<std::size_t>(kind)];
  }

 private:
  HoldPost& hold_post(BoundStream stream) VMART_REQUIRES(turn_);
  std::optional<StopRefusal> try_gate(const Allocation& allocation, const GatedLimits& limits,
                                      std::chrono::nanoseconds arrivals, TimePoint deadline,
                                      MigrationReport& report, HeldTimes& times,
                                      const std::function<void(StoppedWork&)>& body, bool& stopped);
  bool loses_reach(Place from, Place to) const;
  ContextHandle context_of_program(DeviceId device);
  template <typename FindOut>
  bool may_suspend(Place from, Place to, const FindOut& find_out);

  Memory& memory_;
  const bool suspends_;
  const OwnContext own_context_;
  std::function<void()> before_stopping_;
  Watchdog watchdog_;
  SuspensionCheck suspension_check_;  // Only a thread with the turn checks.
  AttachedStreams attached_;
  std::array<StopStats, static_cast<std::size_t>(StopKind::suspension) + 1> stats_;
  std::atomic<int> holds_waiting_{0}, gates_waiting_{0};

  Mutex turn_;  // Taken before the turn for slow calls.
  std::map<ContextHandle, std::unique_ptr<HoldPost>> hold_posts_ VMART_GUARDED_BY(turn_);
  GatePost gate_post_ VMART_GUARDED_BY(turn_);
};

}  // namespace vma
