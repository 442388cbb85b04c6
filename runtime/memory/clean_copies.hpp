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
/// slot's clean copy for as long as nobody may write to the slot, which its allocation's
/// `writable_epoch` tells.
///
/// Booked as `Ledger::Use::copies`: room that is there for the asking. It calls no driver; what is
/// taken out is the caller's to use, keep or release, and booked as allocated. One copy a slot.
/// Slots are named by the address of their allocation, so all of an allocation's are taken out
/// before its addresses can be another's. Any thread.
class CleanCopies {
 public:
  /// Since the runtime was opened. What was kept lies here, is taken by a move, or was used or
  /// dropped.
  struct Counts {
    std::uint64_t kept = 0;
    std::uint64_t used = 0;
    std::uint64_t used_bytes = 0;  ///< That were not copied.
    std::uint64_t dropped = 0;
  };

  explicit CleanCopies(Ledger& ledger) : ledger_(ledger) {}

  /// Requires: idle, booked as allocated; the slot has no copy. False, and it stays the caller's,
  /// if there is no memory to keep track of it.
  bool put(Address begin, std::size_t slot, std::uint64_t epoch, Chunk&& chunk) noexcept;
  /// That of the slot, to take its place, if it lies at `at` and was left in this epoch.
  Chunk take(Address begin, std::size_t slot, Location at, std::uint64_t epoch) noexcept;
  /// Whether `take` would find one.
  bool has(Address begin, std::size_t slot, Location at, std::uint64_t epoch) const noexcept;
  /// That of the slot, wherever it lies, to be dropped.
  Chunk drop(Address begin, std::size_t slot) noexcept;
  /// Any of the allocation's, likewise; empty once it has none.
  Chunk drop_any(Address begin) noexcept;
  /// The one at `at` that was kept first, likewise.
  Chunk drop_oldest(Location at) noexcept;
  /// The same of just this size.
  Chunk drop_oldest(Location at, std::uint64_t size_bytes) noexcept;

  /// One that was put in is the first of its promotion, and not one that a failed move brings back.
  void note_kept() noexcept;
  /// One that was taken shows in its slot now, with the bytes that it had.
  void note_used(std::uint64_t size_bytes) noexcept;
  /// One that was taken is a chunk like any other now.
  void note_dropped() noexcept;

  std::uint64_t bytes(Location at) const;
  Counts counts() const;

 private:
  using Key = std::pair<Address, std::size_t>;
  struct Copy {
    Chunk chunk;
    std::uint64_t epoch = 0;
    std::uint64_t age = 0;
  };
  using Copies = std::map<Key, Copy>;
  using Ages = std::map<std::pair<Location, std::uint64_t>, Key>;  // Of a place, oldest first.

  bool none() const noexcept { return count_ == 0; }
  Copies::const_iterator find(Address begin, std::size_t slot, Location at,
                              std::uint64_t epoch) const VMART_REQUIRES(mutex_);
  Chunk remove(Copies::const_iterator copy) noexcept VMART_REQUIRES(mutex_);
  Chunk drop(Ages::const_iterator age) noexcept VMART_REQUIRES(mutex_);

  Ledger& ledger_;
  std::atomic<std::size_t> count_{0};  // So that who has none pays for none.
  mutable Mutex mutex_;
  Copies copies_ VMART_GUARDED_BY(mutex_);
  Ages ages_ VMART_GUARDED_BY(mutex_);
  std::uint64_t last_age_ VMART_GUARDED_BY(mutex_) = 0;
  Counts counts_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
