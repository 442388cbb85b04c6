#pragma once

#include "memory/allocation.hpp"
#include "migrate/moves/callbacks.hpp"

#include <vma/migration.hpp>

#include <cstddef>
#include <map>

namespace vma {

/// Tells an allocation's hooks of each chunk that is about to move, and of what became of it: also
/// of those that a migration leaves behind when it fails. One thread, nothing stopped.
class MoveNotices {
 public:
  MoveNotices(Allocation& allocation, Callbacks& callbacks)
      : allocation_(allocation), callbacks_(callbacks) {}
  /// Chunks that `after` was not called for have stayed.
  ~MoveNotices();
  MoveNotices(const MoveNotices&) = delete;
  MoveNotices& operator=(const MoveNotices&) = delete;

  /// Throws: Error{cancelled} with the text of what a hook threw. Once for each slot.
  void before(std::size_t slot, Location from, Location to);
  /// Whether there is nobody to tell, or `before` was called.
  bool all_told(std::size_t slot) const {
    return allocation_.hooks().empty() || open_.contains(slot);
  }
  void after(std::size_t slot, bool moved) noexcept;

 private:
  Allocation& allocation_;
  Callbacks& callbacks_;
  std::map<std::size_t, MoveEvent> open_;  // By slot: told before, not yet after.
};

}  // namespace vma
