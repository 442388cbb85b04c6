#pragma once

#include <chrono>
#include <cstddef>

namespace vma {

/// How many chunks share a stop: for the moves of a runtime, and for replays of them. A gate waits
/// for all that the program has launched, and the switch of a chunk takes far less than that.
struct GateShare {
  /// More than the 53 segments of a usual model, and fewer than the 64 locks of a thread that TSan
  /// can follow: a stop holds one for each allocation.
  static constexpr std::size_t chunks_max = 56;
  /// From a gate's last arrival until the first chunk settles, and from its last grant until it
  /// opens.
  static constexpr std::chrono::microseconds overhead{50};
  /// How much of a stop is planned: a chunk for which no time is left waits for another backlog,
  /// and the first switches after a long wait take up to twice as long.
  static constexpr double planned_share = 0.6;

  /// How long the chunks of a gate may take that is closed for at most `max_stall`.
  static constexpr std::chrono::nanoseconds planned(std::chrono::nanoseconds max_stall) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(planned_share * max_stall) -
           overhead;
  }
};

}  // namespace vma
