#pragma once

#include "memory/allocation.hpp"
#include "migrate/migration/callbacks.hpp"

#include <vma/migration.hpp>

#include <cstddef>
#include <map>

namespace vma {

/// Tells an allocation's hooks of each chunk that is about to move, and of the outcome, also for
/// chunks that a failed migration leaves behind. One thread, nothing stopped.
class MoveNotices {
 public:
  MoveNotices(Allocation& allocation, Callbacks& callbacks)
      : allocation_(allocation), callbacks_(callbacks) {}
  /// Reports chunks without a call of `after` as having stayed.
  ~MoveNotices();
  MoveNotices(const MoveNotices&) = delete;
  MoveNotices& operator=(const MoveNotices&) = delete;

  /// Throws: Error{cancelled} with the text of the exception of a hook. Once for each slot.
  void before(std::size_t slot, Location from, Location to);
  /// Whether there are no hooks, or `before` was called.
  bool all_told(std::size_t slot) const {
    return allocation_.hooks().empty() || open_.contains(slot);
  }
  void after(std::size_t slot, bool moved) noexcept;

 private:
  Allocation& allocation_;
  Callbacks& callbacks_;
  std::map<std::size_t, MoveEvent> open_;  // By slot: `before` was called, `after` not yet.
};

}  // namespace vma
