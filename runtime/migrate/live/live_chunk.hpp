#pragma once

#include "migrate/copying/live_copier.hpp"
#include "migrate/live/ways.hpp"
#include "migrate/migration/transaction.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace vma {

/// The call that errors of a live move name.
inline constexpr const char* live_move_call = "vma::migrate_async";

struct LiveRange;

/// One chunk of a live move, from its plan to its end. The thread of the move alone uses it.
struct LiveChunk {
  LiveChunk(Memory& memory, CopyEngine& engine, LiveRange& whole, std::size_t slot,
            std::size_t which);

  /// Its target was a clean copy; the slot may have been written to since, so the bytes must be
  /// copied.
  bool went_stale() const { return choice.way == Way::remapped && !transaction.target_clean(); }

  Transaction transaction;
  LiveRange& range;          ///< The migration that it belongs to.
  const std::size_t number;  ///< In the order of its migration.
  WayChoice choice;

  // --- The copy before the stop: `LiveStaging`.
  LiveCopier* copier = nullptr;  ///< While this chunk occupies its bay.
  std::size_t bay = 0;
  bool staged = false;
  /// By a copy engine, which has not begun: it would keep other chunks from being mapped.
  bool copy_waits = false;
  TimePoint staged_at{0};
  /// The writable epoch of the allocation when the copy began, if it was read-only then.
  std::optional<std::uint64_t> read_only_since;
  /// It moves stopped instead of this way, because there was no memory for digests.
  std::optional<Way> lacked_digests;

  // --- The last try to stop for it: `BatchStop`.
  /// What was written since the copy is settled in this try.
  bool settles = false;

  // --- What the watcher has been told: `LiveAccount`.
  std::optional<TimePoint> begun;
  std::chrono::nanoseconds stall{0};  ///< Its share of the stalls of its gates.
  bool ended = false;

  StallForecast::Fill fill() const noexcept {
    using Fill = StallForecast::Fill;
    if (settles) return Fill::settle;
    return choice.way == Way::stopped ? Fill::copy : Fill::none;
  }
  bool switched() const noexcept { return transaction.state() == Transaction::State::switched; }
  /// It can no longer move: its switch failed, or work of the runtime on it does not end.
  bool broken() const noexcept { return transaction.state() >= Transaction::State::stayed; }
};

/// Chunks that share their gates, of one migration or of several: all are staged, then one gate
/// after the other is closed for them until at least one chunk has switched. Chunks that were left
/// join another batch. All move in the same way; they may leave different GPUs.
struct LiveBatch {
  std::vector<LiveChunk*> chunks;  ///< In the order in which they switch.

  // --- `MoveConditions`.
  TimePoint first_try{0};
  TimePoint deadline{0};  ///< For all tries.
  int tries = 0;          ///< Tries that were given up, except those that only waited.
  int waits = 0;          ///< Tries in which no stream got through its backlog, or its capture.
                          ///< Each waits for longer.
  int yields = 0;         ///< Tries that were given up since streams were attached or detached.
  /// For the next try: from the first arrival to the last, and from there to the first switch.
  std::chrono::nanoseconds gate_limit{0};
  /// In a try the watchdog opened the gate before it was closed, while a stream stood.
  bool blocked = false;
  /// In the last try no stream arrived in time, for whatever reason.
  bool overdue = false;

  LiveChunk& front() const { return *chunks.front(); }
  /// The first one that can no longer move. Null if there is none.
  const LiveChunk* broken() const {
    const auto found = std::ranges::find_if(chunks, &LiveChunk::broken);
    return found == chunks.end() ? nullptr : *found;
  }
  /// The migration ends.
  void leave_out(const LiveRange& range) {
    std::erase_if(chunks, [&](const LiveChunk* chunk) { return &chunk->range == &range; });
  }
  Way way() const { return front().choice.way; }
  StopKind stop() const { return front().choice.stop; }
  CopyUnder copies_under() const {
    return stop() == StopKind::gate ? CopyUnder::gate : CopyUnder::hold;
  }
  /// How long the next try keeps others waiting who need the turn to stop work. It grows, so that
  /// any backlog can be waited for.
  std::chrono::nanoseconds turn_limit() const noexcept {
    constexpr int doublings_max = 10;
    return turn_limit_min * (1 << std::min(waits, doublings_max));
  }
  static constexpr std::chrono::seconds turn_limit_min{2};
};

}  // namespace vma
