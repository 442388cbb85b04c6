#pragma once

#include "migrate/gates/attached_streams.hpp"
#include "migrate/gates/gate.hpp"
#include "migrate/gates/hold.hpp"
#include "migrate/live/live_ranges.hpp"
#include "migrate/migration/migration_parts.hpp"
#include "migrate/stops/suspension.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>

namespace vma {

/// All work of the process, stopped by a suspension or a hold while the chunks of a batch switch.
/// One thread, once.
class WholeStop {
 public:
  explicit WholeStop(MigrationParts& parts) : parts_(parts) {}

  /// None: all work is stopped until `open`, or the watchdog opens after `patience`. A refusal:
  /// nothing has changed.
  std::optional<StopRefusal> suspend(std::chrono::nanoseconds patience,
                                     std::chrono::nanoseconds limit);
  /// The same. The work goes on while its end is waited for.
  std::optional<StopRefusal> hold(HoldPost& post, std::chrono::nanoseconds patience,
                                  std::chrono::nanoseconds limit);
  /// As `Gate::commit`. Requires: stopped.
  bool commit();
  void open() noexcept;

  /// When the suspension began; none if there is none.
  std::optional<TimePoint> suspended_at() const;
  const GateTimes& times() const noexcept { return times_; }

 private:
  MigrationParts& parts_;
  std::optional<Suspension> suspension_;
  std::optional<Hold> hold_;
  StoppedWork* stopped_ = nullptr;  // One of these, while it is closed.
  bool is_dark_ = false;
  std::chrono::nanoseconds off_took_{0};  // To suspend.
  GateTimes times_;
};

/// The work that may use the memory of a batch, stopped in the way that the batch wants: by a gate,
/// or as a `WholeStop`; with the turns that this takes. One thread, once.
/// One owner: the plan of one try and the turns that it takes begin and end with its stop.
class ProgramStop {
 public:
  /// `settles`: other work waits for the stop on the GPU, which `opened_late` releases (`Gate`).
  ProgramStop(MigrationParts& parts, const LiveRanges& ranges, LiveBatch& batch, bool settles,
              Stops::Turn& turn, std::function<void()> opened_late);
  ProgramStop(const ProgramStop&) = delete;
  ProgramStop& operator=(const ProgramStop&) = delete;

  /// As `BatchStop::look`.
  std::optional<StopRefusal> look();
  /// No slow driver call of another thread begins from here on, but while the gate waits for
  /// streams
  /// (`GateLimits::turn`), and until `let_go`. Blocks: for one in progress.
  void take_turn() { slow_call_turn_.take(); }
  /// Finds out what has to stop. Requires: the turn is taken.
  std::optional<StopRefusal> plan();
  /// As `Gate::send`. Requires: planned. Nothing, if the process is stopped as a whole.
  std::optional<StopRefusal> send();
  /// As that of `Gate`. Requires: sent, and at a gate.
  bool await_first(TimePoint until) { return gate_.await_first(until); }
  /// Requires: at a gate, sent; otherwise planned, and `turn` lasts.
  std::optional<StopRefusal> close();
  /// Work of a stream that was attached since the plan was made runs, and may have written after
  /// the settling; streams attached from here on wait.
  std::optional<StopRefusal> require_same();
  /// From here on nothing but `open` lets the work go on. False: it already goes on.
  bool commit() { return at_gate() ? gate_.commit() : whole_.commit(); }
  /// The work goes on, whatever the state.
  void open() noexcept { at_gate() ? gate_.open() : whole_.open(); }
  /// The turns go to others. Requires: open.
  void let_go() noexcept;

  /// The program wants a stream or memory back, or wants a migration to end.
  bool given_up() const noexcept;
  bool at_gate() const noexcept { return stop_ == StopKind::gate; }
  /// How long work may wait for this stop, on the GPU and from before it is sent. Requires:
  /// planned.
  std::chrono::nanoseconds patience();
  /// From stopped to committed. Requires: planned.
  std::chrono::nanoseconds settle_limit() { return limits().settle_limit; }
  /// The GPUs whose work is stopped. Requires: planned.
  const Transaction::Gpus& gpus() const noexcept { return gpus_; }
  std::size_t streams() const noexcept { return streams_.plan().stops.size(); }
  bool all_arrived() const noexcept { return gate_.all_arrived(); }
  std::optional<TimePoint> suspended_at() const { return whole_.suspended_at(); }
  GateTimes times() const noexcept { return at_gate() ? gate_.times() : whole_.times(); }

 private:
  GateLimits limits();
  std::chrono::nanoseconds deepest_backlog() const;

  MigrationParts& parts_;
  const LiveRanges& ranges_;
  LiveBatch& batch_;
  Stops::Turn& turn_;  // Until the stop is closed.
  GatePost& post_;
  const StopKind stop_;  // The batch has no chunk left at the end.
  const bool settles_;
  /// Streams were attached or detached during too many tries: this try blocks that until its end.
  const bool insists_;
  GateStreams streams_;  // Of a gate; kept for the whole of a try that insists.
  Transaction::Gpus gpus_;
  SlowCallTurn slow_call_turn_;
  Gate gate_;
  WholeStop whole_;
};

}  // namespace vma
