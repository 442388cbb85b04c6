#pragma once

#include "base/mutex.hpp"
#include "base/tick_clock.hpp"
#include "telemetry/hint_queue.hpp"
#include "telemetry/use_ring.hpp"

#include <vma/telemetry.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace vma {

struct UseLogLimits {
  std::size_t ring_entries = 4096;  ///< For one thread, 32 bytes each; a power of two.
  std::size_t rings_max = 256;      ///< Threads; uses of further threads are lost, and counted.
  std::size_t hints_max = 1024;
  std::uint64_t seed = 1;  ///< For sampling rings that fill.
};

/// Carries what programs report about their use of memory from any number of threads to one.
///
/// Each thread that records has its own ring, created by its first call, that ends with the thread:
/// the drain empties it and then releases it. Every reported use is counted in one of `recorded`,
/// `sampled_away` and `lost`.
class UseLog {
 public:
  struct Counters {
    std::uint64_t recorded = 0;      ///< Written to a ring.
    std::uint64_t sampled_away = 0;  ///< Left out, for others that have their weight.
    std::uint64_t lost = 0;          ///< Found the ring full, or no ring.
    std::uint64_t hints_dropped = 0;
    std::size_t threads = 0;  ///< Those with a ring now.
  };

  /// `clock` outlives it, and is read only while `timestamps` is on.
  explicit UseLog(const Clock& clock, const UseLogLimits& limits = {});
  /// Requires: no call is in progress. Threads that have recorded may live on.
  ~UseLog();
  UseLog(const UseLog&) = delete;
  UseLog& operator=(const UseLog&) = delete;

  // --- Any thread. No lock, allocation or system call except in a thread's first call; never
  // waits.
  void record(const Use& use) noexcept { record(std::span<const Use>(&use, 1)); }
  /// All get the same time.
  void record(std::span<const Use> uses) noexcept;
  /// Wakes the thread that waits for hints, on this thread. Throws: std::bad_alloc.
  void advise(const AdvisedRange& advised);

  /// Whether uses get the clock's time.
  void timestamps(bool on) noexcept;
  /// From now on uses are ignored and not counted.
  void close() noexcept;

  // --- One thread at a time
  /// Appends at most `max` uses, those of one thread in their order, and returns how many. Throws:
  /// std::bad_alloc; uses taken by then are in `out`.
  std::size_t drain(std::vector<LoggedUse>& out, std::size_t max);
  void drain_hints(std::vector<AdvisedRange>& out) { hints_.take(out); }

  /// See `HintQueue::wake_with`.
  void wake_with(std::function<void()> wake) { hints_.wake_with(std::move(wake)); }
  Counters counters() const;

 private:
  enum class Mode : std::uint8_t { plain, stamped, closed };

  UseRing* ring() noexcept;
  UseRing* find_ring() noexcept;
  UseRing* make_ring() noexcept;
  void put_times(std::span<LoggedUse> uses) noexcept;
  void let_go(const std::shared_ptr<UseRing>& ring);

  // Read by `record`; constant or nearly so.
  const std::uint64_t id_;
  std::atomic<Mode> mode_{Mode::plain};
  TickClock clock_;  // Compared by the drain.
  const UseLogLimits limits_;
  const int process_;

  std::atomic<std::size_t> rings_count_{0};
  std::atomic<std::uint64_t> lost_without_ring_{0};
  HintQueue hints_;

  std::vector<std::shared_ptr<UseRing>> drained_;  // The drain's own, as is the next.
  std::size_t turn_ = 0;

  mutable Mutex mutex_;
  std::vector<std::shared_ptr<UseRing>> rings_ VMART_GUARDED_BY(mutex_);
  std::uint64_t rings_made_ VMART_GUARDED_BY(mutex_) = 0;
  Counters ended_ VMART_GUARDED_BY(mutex_);  // Of released rings.
};

}  // namespace vma
