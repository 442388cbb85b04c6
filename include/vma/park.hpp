#pragma once

#include <vma/location.hpp>
#include <vma/migration.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace vma::inline v1 {

/// What happens to the bytes of parked memory. `drop` moves none of them: the memory goes back to
/// the driver at once, and `resume` returns zeros.
enum class ParkContents { keep, drop };

/// How `Runtime::park` and `Runtime::resume` move.
struct ParkOptions {
  /// The host node that stores the bytes. Default: the node closest to each GPU. `resume` ignores
  /// it.
  std::optional<Location> to;
  /// What to stop, and for how long. A hold, the default, is fastest: everything is stopped once,
  /// and all chunks are copied. `all_or_nothing` is ignored: what may move does.
  MigrateOptions how{};
  /// Whether the bytes are dropped. `resume` ignores it: each chunk comes back as it was parked.
  ParkContents contents = ParkContents::keep;
};

/// What `Runtime::park` or `Runtime::resume` did.
struct ParkReport {
  /// An allocation with bytes that did not move as requested.
  struct Stayed {
    void* pointer = nullptr;
    std::size_t bytes = 0;  ///< Bytes that did not move.
    std::string reason;
  };
  std::size_t allocations = 0;  ///< Allocations examined.
  std::size_t bytes_moved = 0;  ///< Out of HBM, or back. Includes the two values below.
  /// Part of `bytes_moved`: chunks whose contents `park` dropped, or that `resume` brought back as
  /// zeros.
  std::size_t bytes_dropped = 0;
  /// Part of `bytes_moved`: brought by `resume` to another GPU because the original one was full.
  std::size_t bytes_elsewhere = 0;
  std::chrono::nanoseconds wall{0};
  std::vector<Stayed> stayed;
};

}  // namespace vma::inline v1
