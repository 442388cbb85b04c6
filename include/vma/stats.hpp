#pragma once

#include <vma/telemetry.hpp>
#include <vma/place.hpp>
#include <vma/migration.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace vma::inline v1 {

/// One allocation, or one segment of a pool.
struct AllocationInfo {
  void* pointer = nullptr;  ///< Its start.
  std::size_t bytes = 0;
  std::size_t chunk_bytes = 0;  ///< Of each chunk except the last, which may be shorter.
  std::string tag;
  bool movable = true;          ///< False while it is pinned, for whatever reason.
  bool parked = false;          ///< `park` has moved chunks of it out of HBM.
  bool cpu_faults = false;      ///< Allocated with `CpuAccess::fault`.
  std::vector<Extent> extents;  ///< As from `where`.
};

/// Memory that the runtime holds, and counters since it was opened. <vma/counters.hpp> lists them
/// with units.
struct RuntimeStats {
  struct PlaceStats {
    Place at;
    /// Upper limit for the runtime: the configured capacity or all memory of the place, whichever
    /// is less. 0 if the machine does not report how much memory the place has.
    std::size_t capacity_bytes = 0;
    std::size_t allocated_bytes = 0;  ///< Backing users' pointers, in whole chunks.
    std::size_t cached_bytes = 0;
    std::size_t own_bytes = 0;     ///< Keepers, digests, and the reserve for page tables.
    std::size_t leaked_bytes = 0;  ///< The driver refused to release it, or may still write to it.
    std::size_t copies_bytes = 0;  ///< Clean copies: released as soon as the memory is needed.
    /// The driver's memory for the runtime's own context. Beside the capacity.
    std::size_t context_bytes = 0;
  };
  std::vector<PlaceStats> places;
  std::size_t allocations = 0;
  std::size_t poisoned = 0;
  std::size_t parked = 0;         ///< Allocations with chunks that `park` moved out of HBM.
  std::size_t dropped_bytes = 0;  ///< Parked bytes without memory until they are resumed.
  std::size_t leaked = 0;         ///< Driver objects whose release failed; each is logged.
  std::size_t migrations = 0;
  std::size_t bytes_moved = 0;
  std::size_t bytes_copied_twice = 0;
  std::size_t copies_kept = 0;  ///< Moves that left a clean copy behind.
  std::size_t copies_used = 0;  ///< Clean copies to which a chunk returned.
  /// Clean copies dropped to make room or because they became stale.
  std::size_t copies_dropped = 0;
  /// Part of `bytes_moved` that a clean copy held, so was not copied.
  std::size_t bytes_remapped = 0;
  std::size_t gates = 0;           ///< Gates at which all streams arrived.
  std::size_t gates_given_up = 0;  ///< Opened before the chunk was switched.
  std::map<std::string, std::size_t> gates_given_up_by_reason;
  std::size_t callbacks_failed = 0;  ///< Callbacks and hooks that threw an exception.
  DurationSummary skew, stall;       ///< For all gates.
  DurationSummary stall_held;        ///< For all holds.
  DurationSummary stall_suspended;   ///< For all suspensions.
  GpuLoads loads;                    ///< Requires NVML; see VMART_NVML.
};

}  // namespace vma::inline v1
