#pragma once

#include <vma/error.hpp>
#include <vma/location.hpp>
#include <vma/migration.hpp>

#include <cstddef>
#include <optional>
#include <vector>

namespace vma::inline v1 {

/// One of several moves that are asked for together: an allocation, or a part of it, and where it
/// goes. Only whole chunks move, so the range is extended to chunk boundaries.
///
/// Requests may name different places, and parts of one allocation. Two requests may name the same
/// chunk if they go to the same place: it moves for the first of them, and the other finds it there
/// or shares the failure. To different places they are refused.
struct MoveRequest {
  void* pointer = nullptr;  ///< Start of an allocation.
  Location to;
  std::size_t offset = 0;
  std::size_t bytes = 0;  ///< 0, with `offset` 0: the whole allocation.
};

/// What became of one request.
struct RequestReport {
  MoveRequest request;
  MigrationReport report;
  /// Why it has not moved in full; none if it has, or is still moving.
  std::optional<Error> error;
};

/// What became of several requests.
struct GroupReport {
  /// All requests together. A stop counts once, however many requests had chunks at it; `wall` is
  /// the time from the call to the last end. Times by phase are sums, except `wait` and `copy`,
  /// which are those of the request that took longest. `reasons` are sums; `offset` is 0, and
  /// `failures` is empty, since offsets belong to allocations.
  MigrationReport total;
  std::vector<RequestReport> requests;  ///< In the order in which they were given.

  /// The number of requests with an error.
  std::size_t failed() const noexcept {
    std::size_t count = 0;
    for (const RequestReport& request : requests) count += request.error ? 1 : 0;
    return count;
  }
};

}  // namespace vma::inline v1
