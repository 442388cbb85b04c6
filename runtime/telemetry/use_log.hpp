#pragma once

#include "base/clock.hpp"
#include "base/ids.hpp"
#include "base/mutex.hpp"
#include "base/part.hpp"

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

/// A use as the log returns it. Reports by programs are not validated: a device that is not a GPU
/// is -1, and the rest may be anything.
struct LoggedUse {
  Address address{};
  std::uint64_t bytes = 0;
  DeviceId device{};
  UseKind kind = UseKind::read;
  float passes = 1;
  std::uint32_t weight = 1;  ///< How many uses this one represents.
  TimePoint at{0};           ///< Zero if the log records no times.
  bool guessed = false;      ///< Its extent or direction was not reported; see `KnownStarts`.
};

/// The uses that one thread has recorded and the drain has not taken: a ring with one writer and
/// one reader, neither of which waits.
///
/// When the ring is half full, the writer keeps one use in four; at three quarters, one in sixteen;
/// each with its weight, so that sums over the kept uses have the right mean. They are chosen at
/// random; otherwise, a program that loops would always be represented by the same few ranges. A
/// full ring rejects uses and counts them.
class alignas(64) UseRing {
 public:
  /// Requires: `entries` is a power of two, at least 4. Throws: std::bad_alloc.
  UseRing(std::size_t entries, std::uint64_t seed);

  // --- The writer's thread
  void push(const Use& use, TimePoint at) noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    int weight_bits = 0;
    if (head - tail_seen_ >= half_) {
      weight_bits = admit(head);
      if (weight_bits < 0) return;
    }
    write(entries_[head & mask_], use, at, weight_bits);
    head_.store(head + 1, std::memory_order_release);
  }
  /// The writer's last call.
  void end() noexcept { ended_.store(true, std::memory_order_release); }
  /// Whether the log was destroyed, so that there is no reader any more.
  bool orphaned() const noexcept { return orphaned_.load(std::memory_order_acquire); }

  // --- The reader's thread
  /// Appends at most `max` uses, oldest first, and returns how many. Throws: std::bad_alloc; then
  /// nothing is taken.
  std::size_t take(std::vector<LoggedUse>& out, std::size_t max);
  /// Call this before `take`. If it returns true and the ring is empty after `take`, no use will
  /// follow.
  bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  bool empty() const noexcept;
  void orphan() noexcept { orphaned_.store(true, std::memory_order_release); }

  // Any thread. These counters never decrease.
  std::uint64_t kept() const noexcept { return head_.load(std::memory_order_relaxed); }
  std::uint64_t sampled_away() const noexcept {
    return sampled_away_.load(std::memory_order_relaxed);
  }
  std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    std::uint64_t address;
    std::uint64_t bytes;
    std::int64_t at_ns;
    float passes;
    std::int16_t device;
    UseKind kind;
    std::uint8_t weight_bits;
  };
  static_assert(sizeof(Entry) == 32);

  static void write(Entry& entry, const Use& use, TimePoint at, int weight_bits) noexcept;
  int admit(std::uint64_t head) noexcept;

  const std::uint64_t mask_;
  const std::uint64_t half_;
  const std::unique_ptr<Entry[]> entries_;
  std::atomic<bool> ended_{false};
  std::atomic<bool> orphaned_{false};

  // The writer's cache line; only the writer stores to it.
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::uint64_t tail_seen_ = 0;
  std::uint64_t random_;
  std::atomic<std::uint64_t> sampled_away_{0};
  std::atomic<std::uint64_t> lost_{0};

  alignas(64) std::atomic<std::uint64_t> tail_{0};  // Stored to by the reader.
};

inline void UseRing::write(Entry& entry, const Use& use, TimePoint at, int weight_bits) noexcept {
  constexpr int ordinals = 1 << 15;
  const bool is_gpu =
      use.device.kind == Place::Kind::gpu && static_cast<unsigned>(use.device.ordinal) < ordinals;
  entry.address = reinterpret_cast<std::uint64_t>(use.address);
  entry.bytes = use.bytes;
  entry.at_ns = at.count();
  entry.passes = use.passes;
  entry.device = static_cast<std::int16_t>(is_gpu ? use.device.ordinal : -1);
  entry.kind = use.kind;
  entry.weight_bits = static_cast<std::uint8_t>(weight_bits);
}

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
/// the scheduler empties it and then releases it. Every reported use is counted in one of
/// `recorded`, `sampled_away` and `lost`.
/// One owner: the rings of all threads, which one reader empties and counts.
class UseLog final : public Part {
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
  void stop_accepting() noexcept override;

  // --- One thread at a time
  /// Appends at most `max` uses and returns how many. The uses of one thread stay in order. Throws:
  /// std::bad_alloc; uses taken by then are in `out`.
  std::size_t collect(std::vector<LoggedUse>& out, std::size_t max);
  void collect_hints(std::vector<AdvisedRange>& out) { hints_.take(out); }

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
  TickClock clock_;  // Synchronised by the scheduler.
  const UseLogLimits limits_;
  const int process_;

  std::atomic<std::size_t> rings_count_{0};
  std::atomic<std::uint64_t> lost_without_ring_{0};
  HintQueue hints_;

  std::vector<std::shared_ptr<UseRing>>
      collecting_;  // Used only by the scheduler, as is the next member.
  std::size_t turn_ = 0;

  mutable Mutex mutex_;
  std::vector<std::shared_ptr<UseRing>> rings_ VMART_GUARDED_BY(mutex_);
  std::uint64_t rings_made_ VMART_GUARDED_BY(mutex_) = 0;
  Counters ended_ VMART_GUARDED_BY(mutex_);  // Counts of released rings.
};

}  // namespace vma
