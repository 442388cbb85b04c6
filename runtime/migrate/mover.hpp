#pragma once

#include "base/mutex.hpp"
#include "memory/memory.hpp"
#include "migrate/copy_engine.hpp"
#include "migrate/hold.hpp"
#include "migrate/watchdog.hpp"

#include <vma/migration.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace vma {

/// Slots [first, end) of an allocation.
struct SlotRange {
  std::size_t first = 0;
  std::size_t end = 0;
};

/// Moves memory for callers that wait: one hold over all chunks of the range, copies of several
/// chunks in flight, the switch of one beside the copy of the next. Any thread; holds take turns.
class Mover {
 public:
  Mover(Memory& memory, CopyEngine& engine, std::chrono::nanoseconds hold_limit);
  ~Mover();

  /// Requires: the caller holds `allocation.operations()` and has checked that it may move.
  /// Throws: Error with the report; each chunk is wholly at its source or wholly at its target, or
  /// the allocation is poisoned.
  MigrationReport move(Allocation& allocation, SlotRange range, Location to,
                       const MigrateOptions& options);

  std::uint64_t migrations() const noexcept { return migrations_; }
  std::uint64_t bytes_moved() const noexcept { return bytes_moved_; }

 private:
  friend class HeldMove;
  /// Makes the place that holds stand on, at the first move. Requires: `turn_`.
  HoldPost& post(Location from, Location to) VMART_REQUIRES(turn_);

  Memory& memory_;
  CopyEngine& engine_;
  const std::chrono::nanoseconds hold_limit_;
  Watchdog watchdog_;
  Mutex turn_;  // One hold at a time.
  std::unique_ptr<HoldPost> post_ VMART_GUARDED_BY(turn_);
  std::atomic<std::uint64_t> migrations_{0};
  std::atomic<std::uint64_t> bytes_moved_{0};
};

}  // namespace vma
