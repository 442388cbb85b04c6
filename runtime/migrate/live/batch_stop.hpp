#pragma once

#include "migrate/live/live_ranges.hpp"
#include "migrate/live/program_stop.hpp"
#include "migrate/migration/migration_parts.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace vma {

/// The settling of a batch, which waits on each GPU that chunks leave until all work is stopped.
///
///     arm -> go, or let_go: too early, and what is settled is incomplete
///
/// Once let go it runs by itself; `LiveStaging::end_try` waits for it, without a lock. One thread,
/// except `let_go`; once.
class BatchSettling {
 public:
  /// Chunks that settle may leave the batch afterwards. Requires: all arguments outlive it.
  BatchSettling(MigrationParts& parts, const LiveBatch& batch);
  BatchSettling(const BatchSettling&) = delete;
  BatchSettling& operator=(const BatchSettling&) = delete;

  bool any() const noexcept { return !settlers_.empty(); }
  /// It waits on the GPU from here on, before any stream stops: under a closed gate its launch
  /// could hang. A thread in cuCtxDestroy waits for it too, and may block this thread in a driver
  /// call meanwhile; so the watchdog releases it after `patience`.
  void arm(std::chrono::nanoseconds patience);
  /// False: the settling was released too early, and is incomplete.
  bool go();
  /// It runs in the context whose lock this thread may be waiting for, behind a thread that frees
  /// memory. Any thread.
  void let_go() noexcept;
  /// The watchdog looks after it no more.
  void disarm() noexcept;
  /// When `go` let it go.
  TimePoint gone() const noexcept { return gone_; }
  /// What was settled by now shows how long settling takes at most, however long the switches took.
  /// Called for each chunk in the order of the batch.
  void note_settled(const LiveChunk& chunk);

 private:
  /// What settles chunks of the batch that leave one GPU.
  struct Settler {
    LiveCopier* copier = nullptr;
    LiveCopier::Settling settling;
    bool armed = false;
  };

  static std::vector<Settler> settlers_of(const LiveBatch& batch);

  MigrationParts& parts_;
  Clock& clock_;
  const LiveBatch& batch_;
  std::vector<Settler> settlers_;  // One for each GPU that chunks leave; empty if none settles.
  Watchdog::Ticket ticket_ = Watchdog::Ticket::none;
  TimePoint gone_{0};
  std::uint64_t settled_bytes_ = 0;  // In the order of the batch.
};

/// One try to stop the program and switch the chunks of a batch: closes a gate, suspends the
/// process or holds its contexts, as the batch wants, commits, settles or copies and switches one
/// chunk after the other, and lets everything go on.
///
///     look, or send -> await_first ... -> switch_chunks     (or call_off at any time)
///
/// Whatever the outcome, nothing is stopped afterwards. Without a switch, work of the runtime may
/// still run on a chunk: `LiveStaging::end_try` handles its end. One thread, once.
class BatchStop {
 public:
  /// Everything goes on once `max_stall` has passed, apart from the time for the first chunk: since
  /// the gate closed, or since the suspension began. Requires: the turn lasts until `switch_chunks`
  /// or `send` has returned for the last time.
  BatchStop(MigrationParts& parts, const LiveRanges& ranges, LiveBatch& batch,
            std::chrono::nanoseconds max_stall, Stops::Turn& turn);
  ~BatchStop() { call_off(); }
  BatchStop(const BatchStop&) = delete;
  BatchStop& operator=(const BatchStop&) = delete;

  /// Measures the backlogs, if they must be known and are not, and does nothing else. Returns a
  /// refusal and throws as `send`. Blocks: while the streams work off what was launched.
  std::optional<StopRefusal> look();
  /// Tells the streams to stop, and prepares the settling. A refusal: the try was given up, and
  /// nothing has changed. Throws: Error; as for a refusal.
  std::optional<StopRefusal> send();
  /// Waits until a stream arrives, at most until `until`. True: it is time for `switch_chunks`; at
  /// once if the batch suspends. Requires: sent.
  bool await_first(TimePoint until);
  /// None if a chunk was switched; `LiveChunk::switched` tells which were. Otherwise why the try
  /// was given up, and nothing has changed. Throws: Error; the transactions say where the chunks
  /// are then. Requires: sent; the caller holds `operations()` of each allocation of the batch.
  std::optional<StopRefusal> switch_chunks();
  /// The gate opens, or lets the streams pass when they arrive; the settling ends by itself.
  void call_off() noexcept;

  GateTimes times() const noexcept { return program_.times(); }
  bool all_arrived() const noexcept { return program_.all_arrived(); }
  /// The number of streams that were stopped, or should have been.
  std::size_t streams() const noexcept { return program_.streams(); }
  bool all_stopped() const noexcept { return closed_ != never; }
  /// Whether streams were told to stop.
  bool tried() const noexcept { return tried_; }
  /// No stream arrived, though settling work waited and the backlogs predicted an arrival long ago.
  bool overdue() const noexcept { return overdue_; }

 private:
  static constexpr std::chrono::microseconds ask_period{300};

  std::optional<StopRefusal> tell_streams();
  template <typename Body>
  std::optional<StopRefusal> off_unless_done(Body&& body);
  std::optional<StopRefusal> close_and_switch();
  std::optional<StopRefusal> begin_filling();
  std::optional<StopRefusal> switch_first();
  StopRefusal not_filled(const LiveChunk& chunk, std::chrono::nanoseconds limit) const;
  void switch_others();
  void note_filled(const LiveChunk& first);
  bool fill(LiveChunk& chunk, TimePoint deadline);
  void show(LiveChunk& chunk);
  void ask();

  MigrationParts& parts_;
  Clock& clock_;
  LiveBatch& batch_;
  const std::chrono::nanoseconds max_stall_;
  BatchSettling settling_;
  std::optional<SpareKernels::Pause> no_loads_;  // While anything is stopped.
  ProgramStop program_;
  TimePoint asked_{0};
  TimePoint closed_ = never;            // When everything had stopped.
  TimePoint let_through_{-ask_period};  // When a grant of ours last returned: not yet.
  bool tried_ = false;
  bool overdue_ = false;
};

}  // namespace vma
