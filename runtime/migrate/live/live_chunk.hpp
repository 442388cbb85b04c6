#pragma once

#include "migrate/copying/live_copier.hpp"
#include "migrate/live/live_way.hpp"
#include "migrate/migration/transaction.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace vma {

/// The call that errors of a live move name.
inline constexpr const char* live_move_call = "vma::migrate_async";

/// One chunk of a live move, from its plan to its end. The thread of the move alone uses it.
struct LiveChunk {
  LiveChunk(Memory& memory, CopyEngine& engine, Allocation& allocation, std::size_t slot,
            Location to)
      : transaction(memory, engine, allocation, slot, to) {}

  /// Its target was a clean copy; the slot may have been written to since, so the bytes must be
  /// copied.
  bool went_stale() const { return choice.way == Way::remapped && !transaction.target_clean(); }

  Transaction transaction;
  WayChoice choice;

  // --- The copy before the stop: `LiveStaging`.
  LiveCopier* copier = nullptr;  ///< While this chunk occupies its bay.
  std::size_t bay = 0;
  bool staged = false;
  TimePoint staged_at{0};
  /// The writable epoch of the allocation when the copy began, if it was read-only then.
  std::optional<std::uint64_t> read_only_since;
  /// It goes stopped instead of this way, because there was no room for digests.
  std::optional<Way> lacked_digests;

  // --- The tries to stop for it: `StopTries`.
  TimePoint first_try{0};
  TimePoint deadline{0};  ///< For all tries.
  int tries = 0;          ///< Tries that were given up, except those that only waited.
  int waits = 0;          ///< Tries in which no stream got through its backlog, or its capture.
  int yields = 0;         ///< Tries that were given up since streams were attached or detached.
  // In the last try.
  bool settled = false;
  bool overdue = false;  ///< No stream arrived in time, for whatever reason.
  /// For the next try: from the first arrival to the last, and from there to the switch.
  std::chrono::nanoseconds gate_limit{0};

  // --- What the watcher has been told: `LiveAccount`.
  std::optional<TimePoint> begun;
  std::chrono::nanoseconds stall{0};
  bool ended = false;
};

}  // namespace vma
