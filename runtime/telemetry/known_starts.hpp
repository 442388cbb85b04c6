#pragma once

#include "base/clock.hpp"
#include "base/ids.hpp"
#include "memory/registry.hpp"
#include "telemetry/use_log.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace vma {

/// Those of one allocation behind its begin.
class AllocationStarts {
 public:
  /// A launch had a pointer to `offset`. Returns whether it is new; where there are too many, it
  /// may not be added. Requires: `offset` is within the allocation.
  bool add(std::uint64_t offset, std::uint64_t allocation_bytes, TimePoint now);
  /// How far the pointer to `offset` reaches: up to the next start, at most to the end.
  std::uint64_t reach(std::uint64_t offset, std::uint64_t allocation_bytes) const noexcept;

 private:
  struct Start {
    std::uint64_t offset = 0;
    TimePoint seen{0};
  };
  std::vector<Start> list_;  // Sorted.
  TimePoint swept_{0};
};

/// Where things begin within allocations, as far as the pointers of launches have shown: a launch
/// passes a pointer and no size, and a framework puts many tensors into one allocation. One thread
/// at a time.
///
/// Copies and fills teach nothing: they often take a part of a tensor, or go piece by piece.
class KnownStarts {
 public:
  /// Requires: `registry` outlives it.
  explicit KnownStarts(const Registry& registry) : registry_(registry) {}

  /// Gives uses of unknown extent their bytes: up to the next start, of these uses or of earlier
  /// ones, and at most to the end of the allocation. Uses of memory in no allocation keep 0. A use
  /// of unknown direction becomes half a pass of a read and write. Marks both as guessed. Throws:
  /// std::bad_alloc; then some uses are as they were.
  void complete(std::span<LoggedUse> uses, TimePoint now);
  /// The allocation that begins there was freed.
  void forget(Address begin) noexcept { of_.erase(begin); }

 private:
  /// Sets `learnt` if the pointer was not known, so that others may reach less far.
  std::uint64_t reach(Address pointer, TimePoint now, bool& learnt);

  const Registry& registry_;
  std::unordered_map<Address, AllocationStarts> of_;  // By the allocation's begin.
  std::vector<LoggedUse*> open_;                      // Buffer of `complete`.
};

}  // namespace vma
