#pragma once

#include <vma/error.hpp>
#include <vma/export.hpp>
#include <vma/place.hpp>
#include <vma/migration.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace vma::inline v1 {

/// One of several moves that are asked for together: what memory, and where it goes. Without a
/// range it is the allocation that contains `pointer`, or, in a pool, the block that does. A range
/// is `bytes` that begin `offset` bytes after `pointer`, within one allocation or segment of a
/// pool. Only whole chunks move, so the range is extended to chunk boundaries.
///
/// Requests may name different places, and parts of one allocation. Two requests may name the same
/// chunk if they go to the same place: it moves for the first of them, and the other finds it there
/// or shares the failure. To different places they are refused.
struct MoveRequest {
  void* pointer = nullptr;  ///< Any address inside.
  Place to;
  std::size_t offset = 0;
  std::size_t bytes = 0;  ///< 0, with `offset` 0: no range.
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

class GroupTask;

/// Handle of a running migration of several requests. Movable. The migrations continue if the
/// handle is destroyed. Thread-safe.
class VMART_EXPORT MigrationGroup {
 public:
  /// Refers to no migrations: every call except assignment throws Error{invalid_argument}.
  MigrationGroup() = default;
  explicit MigrationGroup(std::shared_ptr<GroupTask> task) noexcept : task_(std::move(task)) {}

  /// Blocks until all requests have ended. Throws: Error with `group()` if one of them has not
  /// moved in full.
  GroupReport wait() const;
  /// Waits for at most `limit`; returns false if a request is still moving.
  bool wait_for(std::chrono::nanoseconds limit) const;
  /// Whether all requests have ended.
  bool done() const;
  /// Ends all requests at their next chunk boundaries: chunks that have moved stay at the target.
  /// Does not wait.
  void cancel() const;
  /// What has been done so far. Does not throw the errors of the requests.
  GroupReport report() const;
  /// What `wait` would throw; null while a request moves, and if all have moved in full.
  std::exception_ptr error() const;
  /// Calls `callback` on the runtime's completion thread when all requests have ended, with no lock
  /// held; immediately, but on the same thread, if they already have. An exception is logged and
  /// counted.
  void on_done(std::function<void()> callback) const;

  std::size_t size() const;
  /// The migration of one request, for instance to cancel it alone. Throws:
  /// Error{invalid_argument} if there is no request of this number.
  Migration request(std::size_t which) const;

 private:
  GroupTask& task() const;
  std::shared_ptr<GroupTask> task_;
};

}  // namespace vma::inline v1
