#pragma once

#include "driver/spare_kernels.hpp"
#include "migrate/gates/gate.hpp"
#include "migrate/live/live_ranges.hpp"
#include "migrate/migration/move_parts.hpp"
#include "migrate/stops/suspension.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace vma {

/// One try to stop the program and switch the chunks of a batch: closes a gate, suspends the
/// process or holds its contexts, as the batch wants, commits, settles or copies and switches one
/// chunk after the other, and lets everything go on.
///
///     drain, or send -> await_first ... -> switch_chunks     (or call_off at any time)
///
/// Whatever the outcome, nothing is stopped afterwards. Without a switch, work of the runtime may
/// still run on a chunk: `LiveStaging::stand_down` handles its end. One thread, once.
class BatchStop {
 public:
  /// Everything goes on once `max_stall` has passed, apart from the time for the first chunk: since
  /// the gate closed, or since the suspension began. Requires: the turn outlives this.
  BatchStop(const MoveParts& parts, const LiveRanges& ranges, LiveBatch& batch,
            std::chrono::nanoseconds max_stall, Stops::Turn& turn);
  ~BatchStop() { call_off(); }
  BatchStop(const BatchStop&) = delete;
  BatchStop& operator=(const BatchStop&) = delete;

  /// Before a hold: waits for what was launched, with nothing stopped, so that little is left to
  /// wait for when it closes. Does nothing else. Returns a refusal and throws as `send`.
  std::optional<GateRefusal> drain();
  /// Tells the streams to stop. A refusal: the try was given up, and
  /// nothing has changed. Throws: Error; as for a refusal.
  std::optional<GateRefusal> send();
  /// Waits until a stream arrives, at most until `until`. True: it is time for `switch_chunks`; at
  /// once if the batch suspends. Requires: sent.
  bool await_first(TimePoint until);
  /// None if a chunk was switched; `LiveChunk::switched` tells which were. Otherwise why the try
  /// was given up, and nothing has changed. Throws: Error; the transactions say where the chunks
  /// are then. Requires: sent; the caller holds `operations()` of each allocation of the batch.
  std::optional<GateRefusal> switch_chunks();
  /// The gate opens, or lets the streams pass when they arrive.
  void call_off() noexcept;

  const GateTimes& times() const noexcept { return times_; }
  /// The number of streams that were stopped, or should have been.
  std::size_t streams() const noexcept { return plan_.stops.size(); }
  bool all_stood() const noexcept { return all_stood_; }

 private:
  static constexpr std::chrono::microseconds ask_period{300};
  GateLimits limits();
  std::chrono::nanoseconds hold_limit() const;
  std::optional<GateRefusal> close();
  std::optional<GateRefusal> suspend();
  std::optional<GateRefusal> hold();
  Hold& make_hold();
  bool commit();
  void open() noexcept;
  bool given_up() const noexcept;
  void name_streams();
  std::optional<GateRefusal> tell_streams();
  template <typename Body>
  std::optional<GateRefusal> off_unless_done(Body&& body);
  std::optional<GateRefusal> pause_loads();
  std::optional<GateRefusal> close_and_switch();
  void begin_filling();
  void settle_next();
  std::optional<GateRefusal> switch_first();
  bool all_stand() const;
  GateRefusal not_filled(const LiveChunk& chunk, std::chrono::nanoseconds limit) const;
  void switch_others();
  void note_filled(const LiveChunk& first);
  void note_settled(const LiveChunk& chunk);
  bool fill(LiveChunk& chunk, TimePoint deadline);
  void show(LiveChunk& chunk);
  void ask();

  const MoveParts& parts_;
  Driver& driver_;
  Clock& clock_;
  const LiveRanges& ranges_;
  LiveBatch& batch_;
  Stops::Turn& turn_;
  GatePost& post_;
  const std::vector<Address> allocations_;
  const std::chrono::nanoseconds max_stall_;
  const StopKind stop_;                          // The batch has no chunk left at the end.
  const bool leaves_one_;                        // GPU, as all chunks do that settle.
  std::optional<MutexLock> nobody_attaches_;     // From the last look at the streams.
  std::optional<SpareKernels::Pause> no_loads_;  // While anything is stopped.
  std::optional<AttachedStreams::Use> streams_;  // From its turn until everything continues.
  GatePlan plan_;
  Transaction::Gpus in_use_;       // The GPUs of these streams.
  std::uint64_t last_attach_ = 0;  // To the allocations, before the streams were listed.
  SlowCallTurn slow_call_turn_;
  Gate gate_;
  std::optional<Suspension> suspension_;
  std::optional<Hold> hold_;
  StoppedWork* stopped_ = nullptr;  // One of these, while it is closed.
  GateTimes times_;
  TimePoint asked_{0};
  TimePoint closed_{0};
  std::chrono::nanoseconds off_took_{0};  // To suspend.
  TimePoint filling_since_{0};
  std::size_t next_to_settle_ = 0;      // In the batch.
  std::uint64_t settled_bytes_ = 0;     // In the order of the batch.
  TimePoint let_through_{-ask_period};  // When a grant of ours last returned: not yet.
  bool is_dark_ = false;
  bool all_stood_ = false;
};

}  // namespace vma
