#pragma once

#include "base/clock.hpp"
#include "memory/memory.hpp"
#include "migrate/moves/mover.hpp"

#include <cstdint>
#include <span>

namespace vma {

/// What a call of `demote` may do.
struct Demotion {
  Location at;                   ///< Where room is needed.
  std::uint64_t size_bytes = 0;  ///< How much.
  TimePoint until{0};            ///< When to stop waiting for the moves.
  /// Where memory may go, the best first; for a GPU, the places that its links make fastest. `at`
  /// and places that have no room by the ledger are skipped.
  std::span<const Location> order;
  /// If no stream is attached at all, the calling thread itself moves under a hold, which stops
  /// every context in use; as with `Runtime::migrate`, the driver then ends any capture in
  /// progress.
  bool may_hold = false;
};

/// Moves chunks away from a place, those first that were allocated or moved longest ago, since
/// their heat is unknown. Takes only chunks that may move and that no other thread moves or frees
/// now; in the background, only of allocations that attached streams may use. The memory that they
/// leave is in the cache on return. Never asks for room itself.
///
/// Returns the bytes that have left `at`. Moves that do not finish in time are cancelled at their
/// next chunk border and may still complete. Throws: std::bad_alloc; Error{driver_gone} if the
/// mover has stopped. Blocks: until `until` at most, and under a hold for one allocation's move
/// longer. Requires: the caller holds no lock and no turn, except for what its own move holds.
std::uint64_t demote(Memory& memory, Mover& mover, const Demotion& wanted);

}  // namespace vma
