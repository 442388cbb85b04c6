#pragma once

#include "base/clock.hpp"
#include "base/ids.hpp"
#include "base/mutex.hpp"
#include "base/tick_clock.hpp"
#include "telemetry/use_ring.hpp"

#include <vma/telemetry.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace vma {

/// A hint, its range, and when it was given; the hint's times are relative to that.
struct AdvisedRange {
  Address address{};
  std::uint64_t bytes = 0;
  Hint hint;
  TimePoint at{0};
};

/// Passes hints from any thread to one thread, in order. Bounded: a new hint displaces the oldest.
class HintQueue {
 public:
  explicit HintQueue(std::size_t max) : max_(max) {}

  /// Calls the function set by `wake_with`, with no lock held. Throws: std::bad_alloc.
  void push(const AdvisedRange& advised);
  /// Moves all hints to the end of `out`.
  void take(std::vector<AdvisedRange>& out);
  /// Sets the function that `push` calls. It must not throw, and may be empty. Blocks: while a call
  /// of the previous function runs; that function is not called afterwards. Requires: the caller is
  /// not inside such a call.
  void wake_with(std::function<void()> wake);
  /// The number of displaced hints.
  std::uint64_t dropped() const;

 private:
  const std::size_t max_;
  mutable Mutex mutex_;
  Condition called_;
  std::deque<AdvisedRange> hints_ VMART_GUARDED_BY(mutex_);
  std::uint64_t dropped_ VMART_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const std::function<void()>> wake_ VMART_GUARDED_BY(mutex_);
  int calling_ VMART_GUARDED_BY(mutex_) = 0;
};

struct UseLogLimits {
  std::size_t ring_entries = 4096;  ///< Per thread; 32 bytes each; a power of two.
  /// Number of threads; uses of further threads are lost, and counted.
  std::size_t rings_max = 256;
  std::size_t hints_max = 1024;
  std::uint64_t seed = 1;  ///< For sampling uses when a ring fills up.
};

/// Carries reports about memory use from any number of threads to one.
///
/// Each thread that records has its own ring, created by its first call, and ended with the thread:
/// the drain empties it and then releases it. Every reported use is counted in one of `recorded`,
/// `sampled_away` and `lost`.
class UseLog {
 public:
  struct Counters {
    std::uint64_t recorded = 0;      ///< Written to a ring.
    std::uint64_t sampled_away = 0;  ///< Skipped; the uses that were kept carry their weight.
    std::uint64_t lost = 0;          ///< There was no ring, or it was full.
    std::uint64_t hints_dropped = 0;
    std::size_t threads = 0;  ///< Threads that have a ring now.
  };

  /// `clock` must outlive the log. It is read only while `timestamps` is on.
  explicit UseLog(const Clock& clock, const UseLogLimits& limits = {});
  /// Requires: no call is in progress. Threads that have recorded may still run.
  ~UseLog();
  UseLog(const UseLog&) = delete;
  UseLog& operator=(const UseLog&) = delete;

  // --- Any thread. No lock, allocation or system call except in a thread's first call; never
  // waits.
  void record(const Use& use) noexcept { record(std::span<const Use>(&use, 1)); }
  /// All uses get the same time.
  void record(std::span<const Use> uses) noexcept;
  /// Also calls the function that wakes the consumer of hints, on this thread. Throws:
  /// std::bad_alloc.
  void advise(const AdvisedRange& advised);

  /// Sets whether uses are stamped with the clock's time.
  void timestamps(bool on) noexcept;
  /// Ignores all further uses, without counting them.
  void close() noexcept;

  // --- One thread at a time
  /// Appends at most `max` uses and returns how many. The uses of one thread stay in order. Throws:
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

  // Read by `record`; rarely written.
  const std::uint64_t id_;
  std::atomic<Mode> mode_{Mode::plain};
  TickClock clock_;  // Synchronised by the drain.
  const UseLogLimits limits_;
  const int process_;

  std::atomic<std::size_t> rings_count_{0};
  std::atomic<std::uint64_t> lost_without_ring_{0};
  HintQueue hints_;

  std::vector<std::shared_ptr<UseRing>> drained_;  // Used only by the drain, as is the next member.
  std::size_t turn_ = 0;

  mutable Mutex mutex_;
  std::vector<std::shared_ptr<UseRing>> rings_ VMART_GUARDED_BY(mutex_);
  std::uint64_t rings_made_ VMART_GUARDED_BY(mutex_) = 0;
  Counters ended_ VMART_GUARDED_BY(mutex_);  // Counts of released rings.
};

}  // namespace vma
