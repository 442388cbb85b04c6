#pragma once

#include "telemetry/use_ring.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace vma {

/// Where the calling thread recorded last: what a use costs a look at. No number of a log is used
/// twice, so that what is left of one that is gone is never taken for another's.
struct LastRing {
  std::uint64_t log = 0;
  UseRing* ring = nullptr;
};
// Not of the initial-exec model: that would save a call, and a process whose other libraries have
// used up the room for it could not load this one at all.
extern constinit thread_local LastRing last_ring;

/// The rings that one thread writes, by the number of their log, which no later log has. A thread
/// may outlive its logs and a log its threads, so that either keeps the ring for itself; when the
/// thread ends, its rings are told.
class ThreadRings {
 public:
  /// Null while the calling thread ends and its list is gone.
  static ThreadRings* mine() noexcept;

  ~ThreadRings();

  /// Null if there is none.
  UseRing* find(std::uint64_t log) const noexcept;
  /// Forgets the rings of logs that are gone, and has room for one more. Throws: std::bad_alloc.
  void make_room();
  /// Requires: `make_room` was called, and there is none of this log.
  void add(std::uint64_t log, std::shared_ptr<UseRing> ring) noexcept;
  std::size_t size() const noexcept { return rings_.size(); }

 private:
  ThreadRings() = default;
  std::vector<std::pair<std::uint64_t, std::shared_ptr<UseRing>>> rings_;
};

}  // namespace vma
