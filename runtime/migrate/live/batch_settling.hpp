#pragma once

#include "migrate/live/live_ranges.hpp"
#include "migrate/migration/migration_parts.hpp"

#include <chrono>
#include <cstdint>
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

}  // namespace vma
