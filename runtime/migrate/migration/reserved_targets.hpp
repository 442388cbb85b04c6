#pragma once

#include "migrate/migration/transaction.hpp"

#include <cstddef>
#include <list>

namespace vma {

/// Target memory of one migration, taken before it begins: of a group in which all of it is there
/// before anything moves (`TargetReservation`). One thread at a time, which has the allocation's
/// move claim. Between the reservation and the migration, another thread may have the claim, and
/// move the same memory.
class ReservedTargets {
 public:
  /// Slots are added in ascending order; the caller takes the target. Throws: std::bad_alloc.
  Transaction& add(Memory& memory, CopyEngine& engine, Allocation& allocation, std::size_t slot,
                   Location to);
  /// Gives `planned` the target of its slot, if there is one. Requires: slots are asked for in
  /// ascending order.
  void hand_over_to(Transaction& planned) noexcept;
  bool empty() const noexcept { return targets_.empty(); }
  /// What was not needed goes back to the cache, or to the clean copies.
  void give_back() noexcept { targets_.clear(); }

 private:
  std::list<Transaction> targets_;  // Each only takes its target. A list needs no memory if empty.
};

}  // namespace vma
