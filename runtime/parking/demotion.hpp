#pragma once

#include "base/clock.hpp"
#include "memory/memory.hpp"
#include "migrate/moves/mover.hpp"

#include <cstdint>
#include <span>

namespace vma {

/// What a call of `demote` may do.
struct Demotion {
  Location at;                   ///< Where room is wanted.
  std::uint64_t size_bytes = 0;  ///< How much.
  TimePoint until{0};            ///< It waits no longer for the moves.
  /// Where memory may go, the best first; for a GPU, whatever its links make fastest. A place that
  /// has no room by the books is passed over, and so is `at`.
  std::span<const Location> order;
  /// Where no stream is attached at all, the calling thread itself moves under a hold, which stops
  /// every context in use; as with `Runtime::migrate`, a capture under way ends then, by the
  /// driver.
  bool may_hold = false;
};

/// Moves chunks away from a place, those first that were made or moved longest ago, since nobody
/// knows how hot they are. Takes only what may move and what nobody moves or frees now; in the
/// background, of allocations that attached streams may use. The memory that they leave is in the
/// cache when it returns. Asks nobody for room itself.
///
/// Returns the bytes that have left `at`. What does not get done in time is cancelled at its next
/// chunk border and may still come. Throws: std::bad_alloc; Error{driver_gone} where the mover has
/// stopped. Blocks: until `until` at most, and under a hold for one allocation's move longer.
/// Requires: the caller holds no lock and no turn, but for what its own move holds.
std::uint64_t demote(Memory& memory, Mover& mover, const Demotion& wanted);

}  // namespace vma
