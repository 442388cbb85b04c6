#pragma once

#include "base/thread_parts.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace vma {

/// Raises `high` to `value`.
inline void raise(std::atomic<std::uint64_t>& high, std::uint64_t value) noexcept {
  std::uint64_t before = high.load(std::memory_order_relaxed);
  while (before < value && !high.compare_exchange_weak(before, value, std::memory_order_relaxed)) {
  }
}

/// What of a pool is in use, and whether the pool was destroyed. Any thread.
///
/// Calls of a stream count in its share, whose lock they hold anyway, so that threads with streams
/// of their own write to no common cache line. Shares are folded into one word as they grow. What a
/// stream frees stays in its share, to be used again; so the word alone is too high, and the high
/// mark is raised only by a sum over all shares. A destroyed pool counts in the word alone: of all
/// calls that end a use of it exactly one learns that it was the last, and the others need not
/// touch the pool any more.
class PoolUses {
 public:
  /// What a stream has counted since its last fold. Guarded by the stream's lock. Lasts as long as
  /// the PoolUses.
  class Share {
   public:
    Share() = default;
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

   private:
    friend class PoolUses;
    std::atomic<std::int64_t> bytes_{0};  // Below 0 if it freed more. Read without the lock.
    std::int64_t high_bytes_ = 0;
    std::int64_t low_bytes_ = 0;  // Since the last look at the high mark.
    bool is_listed_ = false;
    Share* next_ = nullptr;
  };

  /// Bytes that are handed out. False: the pool was destroyed. They are counted even so.
  bool add(std::uint64_t bytes) noexcept {
    const std::uint64_t before = word_.fetch_add(bytes);
    raise_high(used_of(before) + bytes, 0);
    return !is_retired(before);
  }
  /// True: it was the last use of a destroyed pool. Unless the caller keeps it by other means, it
  /// may be gone on return.
  [[nodiscard]] bool remove(std::uint64_t bytes) noexcept {
    return word_.fetch_sub(bytes) - bytes == retired_bit;
  }
  /// The same in a share. False: the pool was destroyed, and nothing was counted.
  bool add(Share& share, std::uint64_t bytes) noexcept {
    if (retired()) return false;
    const std::int64_t now = count(share, static_cast<std::int64_t>(bytes));
    share.high_bytes_ = std::max(share.high_bytes_, now);
    if (now >= fold_bytes) {
      fold(share);
    } else if (now - share.low_bytes_ >= fold_bytes) {
      share.low_bytes_ = now;
      look_at_high();
    }
    return true;
  }
  bool remove(Share& share, std::uint64_t bytes) noexcept {
    if (retired()) return false;
    share.low_bytes_ = std::min(share.low_bytes_, count(share, -static_cast<std::int64_t>(bytes)));
    return true;
  }
  void fold(Share& share) noexcept {
    const std::int64_t bytes = share.bytes_.load(std::memory_order_relaxed);
    const auto fallen = static_cast<std::uint64_t>(share.high_bytes_ - bytes);
    if (bytes == 0 && fallen == 0) return;
    share.high_bytes_ = share.low_bytes_ = 0;
    // In an order in which a sum beside it is rather too low.
    if (bytes > 0) share.bytes_.store(0);
    const std::uint64_t before = word_.fetch_add(static_cast<std::uint64_t>(bytes));
    if (bytes <= 0) share.bytes_.store(0);
    raise_high(used_of(before) + static_cast<std::uint64_t>(bytes), fallen);
  }

  /// A call that may add. Counts as a use, but as no bytes; `remove(call)` ends it.
  bool enter() noexcept { return !is_retired(word_.fetch_add(call)); }
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

  /// No more uses, and none in shares: `fold_all` folds each, under its lock. False: the pool was
  /// destroyed before. Requires: the caller looks for the last use afterwards.
  template <typename FoldAll>
  bool retire(FoldAll&& fold_all) {
    if (retired_.exchange(true)) return false;
    word_ += retired_bit + call;  // Until the shares are in it, no use is the last.
    fold_all();
    word_ -= call;
    return true;
  }
  bool retired() const noexcept { return retired_.load(); }
  /// Whether a block is in use that no graph keeps, or a call may yet use one. Requires: retired.
  bool any() const noexcept { return word_.load() != retired_bit; }

  /// All shares are folded: the high mark is at least what is used.
  void settle() noexcept { raise(high_, bytes()); }
  /// Exact once all shares are folded. The high mark is exact for one stream. For several, it may
  /// be low by an eighth, and by `fold_bytes` for each.
  std::uint64_t bytes() const noexcept { return used_of(word_.load()) + kept_.load(); }
  std::uint64_t high_bytes() const noexcept { return high_.load(); }
  void reset_high() noexcept { high_ = bytes(); }

 private:
  // Bytes, modulo 2^64: shares that freed more than they handed out may be folded first. Sizes of
  // blocks are multiples of 256 bytes, so calls are counted below them.
  static constexpr std::uint64_t retired_bit = std::uint64_t{1} << 62, calls_mask = 255;
  static constexpr std::int64_t fold_bytes = std::int64_t{2} << 20;

  static bool is_retired(std::uint64_t word) noexcept {
    return static_cast<std::int64_t>(word) >= std::int64_t{1} << 61;
  }
  /// Modulo 2^64.
  static std::uint64_t used_of(std::uint64_t word) noexcept {
    return (word & ~calls_mask) - (is_retired(word) ? retired_bit : 0);
  }
  /// Returns what the share has now.
  std::int64_t count(Share& share, std::int64_t bytes) noexcept {
    if (!share.is_listed_) list(share);
    const std::int64_t now = share.bytes_.load(std::memory_order_relaxed) + bytes;
    share.bytes_.store(now, std::memory_order_relaxed);
    return now;
  }
  void list(Share& share) noexcept {
    share.is_listed_ = true;
    share.next_ = shares_.load(std::memory_order_relaxed);
    while (!shares_.compare_exchange_weak(share.next_, &share, std::memory_order_release,
                                          std::memory_order_relaxed)) {
    }
  }
  /// A stream uses more of what it had freed. The word is too high while others do not, so a sum
  /// over all shares each time would be in vain; an eighth more is worth it.
  void look_at_high() noexcept {
    const std::uint64_t most = bytes(), high = high_.load(std::memory_order_relaxed);
    if (most > high + high / 8) raise_high(used_of(word_.load()), 0);
  }
  /// `used` by the word, which is at least what is in use; `fallen` is how much more it was a
  /// moment ago.
  void raise_high(std::uint64_t used, std::uint64_t fallen) noexcept {
    const auto most =
        static_cast<std::int64_t>(used + fallen + kept_.load(std::memory_order_relaxed));
    if (most <= static_cast<std::int64_t>(high_.load(std::memory_order_relaxed))) return;
    std::uint64_t sum = bytes() + fallen;
    for (const Share* share = shares_.load(std::memory_order_acquire); share != nullptr;
         share = share->next_) {
      sum += static_cast<std::uint64_t>(share->bytes_.load(std::memory_order_relaxed));
    }
    if (static_cast<std::int64_t>(sum) > 0) raise(high_, sum);
  }

  // Not in the cache line that all write to.
  std::atomic<bool> retired_{false};    // As the word says.
  std::atomic<std::uint64_t> kept_{0};  // For graphs.
  std::atomic<std::uint64_t> high_{0};
  std::atomic<Share*> shares_{nullptr};  // A list that only grows.
  alignas(cache_lines) std::atomic<std::uint64_t> word_{0};
};

}  // namespace vma
