#pragma once

#include "migrate/migration/move_parts.hpp"

#include <cstddef>
#include <vector>

namespace vma {

/// Gives up the chunks of one allocation with their bytes: implements `Mover::drop`, step by step.
///
/// A dropped slot stays dark after the hold, since its owner wants it so: the hold only waits for
/// the work that was submitted before (I2). The chunks go back to the driver once work continues.
/// One thread, which has the allocation's move claim and `operations()`.
class HeldDrop {
 public:
  HeldDrop(const MoveParts& parts, Allocation& allocation, SlotRange range,
           const MigrateOptions& options);
  ~HeldDrop();  // Gives back what `run` has not.
  HeldDrop(const HeldDrop&) = delete;
  HeldDrop& operator=(const HeldDrop&) = delete;

  /// Throws: Error with the report.
  MigrationReport run();

 private:
  void plan();
  void drop_held();
  void drop_all(StoppedWork* hold);
  void drop_one(std::size_t slot, StoppedWork* hold);
  void finish(TimePoint start) noexcept;
  void give_back() noexcept;

  const MoveParts& parts_;
  Memory& memory_;
  Clock& clock_;
  Allocation& allocation_;
  const SlotRange range_;
  const MigrateOptions& options_;
  MigrationReport report_;
  std::vector<std::size_t> slots_;  // That show something.
  std::vector<Chunk> chunks_;       // Unmapped; capacity is reserved for all.
  TimePoint let_through_{0};        // When a driver call of ours last returned under the hold.
};

/// Gives memory to slots whose contents were dropped: implements `Mover::restore`, step by step.
///
/// Allocates and zeroes all memory of the range before its first slot shows any; if that fails,
/// nothing changes. One thread, which has the allocation's move claim and `operations()`.
class Restoration {
 public:
  Restoration(const MoveParts& parts, Allocation& allocation, SlotRange range, Location at);
  ~Restoration();  // Chunks that no slot shows go to the cache.
  Restoration(const Restoration&) = delete;
  Restoration& operator=(const Restoration&) = delete;

  /// Throws: Error with the report.
  MigrationReport run();

 private:
  void plan();
  void obtain();
  void show(std::size_t slot, Chunk& chunk);
  void tell_restored(std::size_t slot, Location from) noexcept;
  void finish(TimePoint start) noexcept;

  const MoveParts& parts_;
  Memory& memory_;
  Clock& clock_;
  Allocation& allocation_;
  const SlotRange range_;
  const Location at_;
  MigrationReport report_;
  std::vector<std::size_t> slots_;  // The dropped ones.
  std::vector<Chunk> chunks_;       // One for each of `slots_`; empty once shown.
};

}  // namespace vma
