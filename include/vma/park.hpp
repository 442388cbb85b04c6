#pragma once

#include <vma/location.hpp>
#include <vma/migration.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace vma::inline v1 {

/// What becomes of the bytes of what is parked. `drop` moves none: the memory goes back to the
/// driver at once, and what is resumed is all zeros.
enum class ParkContents { keep, drop };

/// How `Runtime::park` and `Runtime::resume` move.
struct ParkOptions {
  /// Where the bytes wait: a host node. Not set: the node closest to each GPU. `resume` ignores it.
  std::optional<Location> to;
  /// What is stopped, and for how long. A hold, the default, is the fastest: copies go one behind
  /// the other while everything stands.
  MigrateOptions how{};
  /// Whether the bytes are given up. `resume` ignores it: each chunk comes back as it was parked.
  ParkContents contents = ParkContents::keep;
};

/// What `Runtime::park` or `Runtime::resume` did.
struct ParkReport {
  /// An allocation of which bytes did not go where they were asked to.
  struct Stayed {
    void* pointer = nullptr;
    std::size_t bytes = 0;  ///< That lie where they lay before.
    std::string reason;
  };
  std::size_t allocations = 0;  ///< That were looked at.
  std::size_t bytes_moved = 0;  ///< Out of HBM, or back; with those below.
  /// Of `bytes_moved`: of chunks whose contents `park` has dropped, or that `resume` brought back
  /// without them, as zeros.
  std::size_t bytes_dropped = 0;
  /// Of `bytes_moved`: brought by `resume` to another GPU than they came from, which had no room.
  std::size_t bytes_elsewhere = 0;
  std::chrono::nanoseconds wall{0};
  std::vector<Stayed> stayed;
};

}  // namespace vma::inline v1
