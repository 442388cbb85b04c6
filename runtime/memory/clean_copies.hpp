#pragma once

#include "base/mutex.hpp"
#include "memory/chunk.hpp"
#include "memory/ledger.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace vma {

/// Chunks that moves have left behind: what a slot showed before its bytes went to HBM. Each is the
/// slot's clean copy while the slot cannot be written to, which the `writable_epoch` of its
/// allocation tells.
///
/// Booked as `Ledger::Use::copies`: room that can be reclaimed at any time. It makes no driver
/// calls; what is taken out is the caller's to use, keep or release, and booked as allocated. One
/// copy a slot. Slots are named by the address of their allocation, so all copies of an allocation
/// are taken out before another allocation can get its addresses. Any thread.
class CleanCopies {
 public:
  /// Totals since the runtime was opened. A copy that was kept is still here, or a move has taken
  /// it, or it was used or dropped.
  struct Counts {
    std::uint64_t kept = 0;
    std::uint64_t used = 0;
    std::uint64_t used_bytes = 0;  ///< Bytes that need not be copied.
    std::uint64_t dropped = 0;
  };

  explicit CleanCopies(Ledger& ledger) : ledger_(ledger) {}

  /// Requires: idle, booked as allocated; the slot has no copy. False if there is no memory to keep
  /// track of the copy; then the caller still owns it.
  bool put(Address begin, std::size_t slot, std::uint64_t epoch, Chunk&& chunk) noexcept;
  /// The slot's copy, for a move to show it, if it is at `at` and was left in this epoch.
  Chunk take(Address begin, std::size_t slot, Place at, std::uint64_t epoch) noexcept;
  /// Whether `take` would find one.
  bool has(Address begin, std::size_t slot, Place at, std::uint64_t epoch) const noexcept;
  /// The slot's copy at any place, for the caller to drop.
  Chunk drop(Address begin, std::size_t slot) noexcept;
  /// Any copy of the allocation, for the caller to drop; empty if it has none.
  Chunk drop_any(Address begin) noexcept;
  /// The oldest copy at `at`, for the caller to drop.
  Chunk drop_oldest(Place at) noexcept;
  /// The oldest copy of exactly this size at `at`.
  Chunk drop_oldest(Place at, std::uint64_t size_bytes) noexcept;

  /// Counts a copy that was put in for the first time, not one that a failed move brings back.
  void note_kept() noexcept;
  /// Counts a copy that its slot shows again, with the bytes that it had.
  void note_used(std::uint64_t size_bytes) noexcept;
  /// Counts a copy that is an ordinary chunk from now on.
  void note_dropped() noexcept;

  std::uint64_t bytes(Place at) const;
  Counts counts() const;

 private:
  using Key = std::pair<Address, std::size_t>;
  struct Copy {
    Chunk chunk;
    std::uint64_t epoch = 0;
    std::uint64_t age = 0;
  };
  using Copies = std::map<Key, Copy>;
  using Ages = std::map<std::pair<Place, std::uint64_t>, Key>;  // Of a place, oldest first.

  bool none() const noexcept { return count_ == 0; }
  Copies::const_iterator find(Address begin, std::size_t slot, Place at, std::uint64_t epoch) const
      VMART_REQUIRES(mutex_);
  Chunk remove(Copies::const_iterator copy) noexcept VMART_REQUIRES(mutex_);
  Chunk drop(Ages::const_iterator age) noexcept VMART_REQUIRES(mutex_);

  Ledger& ledger_;
  std::atomic<std::size_t> count_{0};  // Makes the calls cheap while there are no copies.
  mutable Mutex mutex_;
  Copies copies_ VMART_GUARDED_BY(mutex_);
  Ages ages_ VMART_GUARDED_BY(mutex_);
  std::uint64_t last_age_ VMART_GUARDED_BY(mutex_) = 0;
  Counts counts_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
