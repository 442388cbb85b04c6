#pragma once

#include <atomic>
#include <cstdint>

namespace vma {

/// Raises `high` to `value`.
inline void raise(std::atomic<std::uint64_t>& high, std::uint64_t value) noexcept {
  std::uint64_t before = high.load(std::memory_order_relaxed);
  while (before < value && !high.compare_exchange_weak(before, value, std::memory_order_relaxed)) {
  }
}

/// What of a pool is in use, and whether the pool was destroyed, in one word. So of all calls that
/// end a use of a destroyed pool exactly one learns that it was the last, and the others need not
/// touch the pool any more. Any thread.
class PoolUses {
 public:
  /// Bytes that are handed out. False: the pool was destroyed. They are counted even so.
  bool add(std::uint64_t bytes) noexcept {
    const std::uint64_t before = word_.fetch_add(bytes);
    const std::uint64_t used = used_of(before) + bytes + kept_.load(std::memory_order_relaxed);
    if (used > high_.load(std::memory_order_relaxed)) raise(high_, used);
    return (before & retired_bit) == 0;
  }
  /// True: it was the last use of a destroyed pool. Unless the caller keeps it by other means, it
  /// may be gone on return.
  [[nodiscard]] bool remove(std::uint64_t bytes) noexcept {
    return word_.fetch_sub(bytes) - bytes == retired_bit;
  }
  /// A call that may add. Counts as a use, but as no bytes; `remove(call)` ends it.
  bool enter() noexcept { return (word_.fetch_add(call) & retired_bit) == 0; }
  static constexpr std::uint64_t call = 1;

  /// From now on a graph keeps bytes that were in use, or keeps them no longer; those are in use
  /// again, or were freed. Requires: a lock of the caller, and a call that has entered, for `keep`.
  void keep(std::uint64_t bytes) noexcept {
    kept_ += bytes;
    word_ -= bytes;
  }
  void forsake(std::uint64_t bytes, bool freed) noexcept {
    if (!freed) word_ += bytes;
    kept_ -= bytes;
  }

  /// No more uses. False: the pool was destroyed before.
  bool retire() noexcept {
    retired_ = true;
    return (word_.fetch_or(retired_bit) & retired_bit) == 0;
  }
  bool retired() const noexcept { return retired_.load(); }
  /// Whether a block is in use that no graph keeps, or a call may yet use one.
  bool any() const noexcept { return (word_.load() & ~retired_bit) != 0; }

  std::uint64_t bytes() const noexcept { return used_of(word_.load()) + kept_.load(); }
  std::uint64_t high_bytes() const noexcept { return high_.load(); }
  void reset_high() noexcept { high_ = bytes(); }

 private:
  // Sizes of blocks are multiples of 256 bytes, so calls are counted below them.
  static constexpr std::uint64_t retired_bit = std::uint64_t{1} << 63, calls_mask = 255;

  static std::uint64_t used_of(std::uint64_t word) noexcept {
    return word & ~(retired_bit | calls_mask);
  }

  std::atomic<bool> retired_{false};  // As the word says; not in the cache line that all write to.
  alignas(64) std::atomic<std::uint64_t> word_{0};
  std::atomic<std::uint64_t> kept_{0};  // For graphs.
  std::atomic<std::uint64_t> high_{0};
};

}  // namespace vma
