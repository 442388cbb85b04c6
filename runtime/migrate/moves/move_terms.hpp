#pragma once

#include <cstdint>

namespace vma {

/// Who chose where a move goes.
enum class PlaceChoice {
  program,  ///< Who uses the memory knows of it: from then on this is where it is wanted.
  former,   ///< It goes back to where it lay before.
  runtime,  ///< Refused where somebody who uses the memory could not reach it any more (`Reach`).
};

/// What the runtime itself asks of a move besides what its users can.
struct MoveTerms {
  /// Where a GPU is full, who makes room is asked for it (`MemoryPressure`). Not of moves that make
  /// room themselves: those would wait for each other.
  bool asks_for_room = true;
  /// The chunks that it leaves go back to the driver and not into the cache.
  bool gives_back = false;
  /// As `MigrateOptions::keep_clean_copy`, which they need not have.
  bool keeps_copy = false;
  /// Who asked for it, by a number that says something to who watches chunks; 0: nobody of those.
  std::uint64_t operation = 0;
  /// A policy wants it, and the scheduler keeps account of it.
  bool by_policy = false;
  PlaceChoice choice = PlaceChoice::program;
};

}  // namespace vma
