#pragma once

#include "telemetry/use_ring.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace vma {

/// Where the calling thread recorded last: a use costs one look here. Log numbers are unique, so
/// that a leftover of a destroyed log is never mistaken for another's.
struct LastRing {
  std::uint64_t log = 0;
  UseRing* ring = nullptr;
};
// Not of the initial-exec model: that would save a call, but a process whose other libraries have
// used up the space for it could not load this library at all.
extern constinit thread_local LastRing last_ring;

/// The rings that one thread writes, by the unique number of their log. A thread may outlive its
/// logs and a log its threads, so both keep the ring alive; when the thread ends, it marks its
/// rings as ended.
class ThreadRings {
 public:
  /// Null while the calling thread ends and its list is destroyed.
  static ThreadRings* mine() noexcept;

  ~ThreadRings();

  /// Null if there is none.
  UseRing* find(std::uint64_t log) const noexcept;
  /// Drops the rings of destroyed logs, and makes room for one more. Throws: std::bad_alloc.
  void make_room();
  /// Requires: `make_room` was called, and there is no ring of this log.
  void add(std::uint64_t log, std::shared_ptr<UseRing> ring) noexcept;
  std::size_t size() const noexcept { return rings_.size(); }

 private:
  ThreadRings() = default;
  std::vector<std::pair<std::uint64_t, std::shared_ptr<UseRing>>> rings_;
};

}  // namespace vma
