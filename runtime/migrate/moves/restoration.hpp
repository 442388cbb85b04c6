#pragma once

#include "migrate/moves/move_parts.hpp"

#include <cstddef>
#include <vector>

namespace vma {

/// Gives memory to slots whose contents were dropped: what `Mover::restore` does, step by step.
///
/// All memory of the range is had and zeroed before its first slot shows any, so that want of room
/// changes nothing. One thread, which has the allocation's move claim and `operations()`.
class Restoration {
 public:
  Restoration(const MoveParts& parts, Allocation& allocation, SlotRange range, Location at);
  ~Restoration();  // What no slot shows goes to the cache.
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
  std::vector<std::size_t> slots_;  // That were dropped.
  std::vector<Chunk> chunks_;       // For them, in their order; empty once shown.
};

}  // namespace vma
