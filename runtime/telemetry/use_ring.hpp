#pragma once

#include "base/clock.hpp"
#include "base/ids.hpp"

#include <vma/telemetry.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
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
  const bool is_gpu = use.device.kind == Location::Kind::gpu &&
                      static_cast<unsigned>(use.device.ordinal) < ordinals;
  entry.address = reinterpret_cast<std::uint64_t>(use.address);
  entry.bytes = use.bytes;
  entry.at_ns = at.count();
  entry.passes = use.passes;
  entry.device = static_cast<std::int16_t>(is_gpu ? use.device.ordinal : -1);
  entry.kind = use.kind;
  entry.weight_bits = static_cast<std::uint8_t>(weight_bits);
}

}  // namespace vma
