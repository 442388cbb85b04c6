#pragma once

#include "base/clock.hpp"
#include "memory/memory.hpp"
#include "migrate/moves/migrator.hpp"

#include <cstdint>
#include <span>

namespace vma {

/// The parameters of a call of `demote`.
struct Demotion {
  Place at;                      ///< Where room is needed.
  std::uint64_t size_bytes = 0;  ///< How much.
  TimePoint until{0};            ///< When to stop waiting for moves.
  /// Where memory may go, best first; for a GPU, the places that its links reach fastest. Skips
  /// `at` and places that have no room in the ledger.
  std::span<const Place> order;
};

struct Demoted {
  std::uint64_t bytes_moved = 0;  ///< That have left the place.
  /// Another thread moved or freed memory, so asking again may help.
  bool others_move = false;

  MemoryPressure::Answer answer() const noexcept {
    using enum MemoryPressure::Answer;
    if (bytes_moved > 0) return some_left;
    return others_move ? others_at_work : nothing_leaves;
  }
};

/// Moves chunks away from a place. Starts with those that were allocated or moved longest ago,
/// since their heat is unknown. Takes only chunks that may move, whose work can be stopped in the
/// background, with streams attached or not, and that no other thread is moving or freeing. On
/// return, the memory that they occupied is in the cache. Never requests room itself. Where work is
/// held, the driver ends captures that the runtime cannot know of, as in `Runtime::migrate`.
///
/// Moves that do not finish in time are cancelled at their next chunk border and may still
/// complete. Throws: std::bad_alloc; Error{driver_gone} if the migrator has stopped. Blocks: until
/// `until` at the latest. Requires: the caller holds no lock and no turn, except for what its own
/// move holds.
Demoted demote(Memory& memory, Migrator& migrator, const Demotion& wanted);

}  // namespace vma
