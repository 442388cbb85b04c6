#pragma once

#include "telemetry/use_ring.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace vma {

/// The ring that the calling thread used last, so that a use costs one comparison. Log numbers are
/// unique, so the entry of a destroyed log never matches another one.
struct LastRing {
  std::uint64_t log = 0;
  UseRing* ring = nullptr;
};
// Does not use the initial-exec model. That would save a call, but a process whose other libraries
// have used up the space for it could not load this library.
extern constinit thread_local LastRing last_ring;

/// The rings that one thread writes, by the unique number of their log. A thread may outlive its
/// logs and a log its threads, so both keep the ring alive. When the thread ends, it marks its
/// rings as ended.
class ThreadRings {
 public:
  /// Null if the calling thread is ending and its list has been destroyed.
  static ThreadRings* mine() noexcept;

  ~ThreadRings();

  /// Null if there is none.
  UseRing* find(std::uint64_t log) const noexcept;
  /// Drops the rings of destroyed logs and reserves space for one more. Throws: std::bad_alloc.
  void make_room();
  /// Requires: `make_room` was called, and this log has no ring yet.
  void add(std::uint64_t log, std::shared_ptr<UseRing> ring) noexcept;
  std::size_t size() const noexcept { return rings_.size(); }

 private:
  ThreadRings() = default;
  std::vector<std::pair<std::uint64_t, std::shared_ptr<UseRing>>> rings_;
};

}  // namespace vma
