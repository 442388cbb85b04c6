#pragma once

#include "pools/stream_frees.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>

namespace vma {

/// The streams that a pool knows. Each thread remembers the last few that it named, so that its
/// next call finds them without a lock. Any thread; the lock of the pool is taken before those
/// here.
class StreamBook {
 public:
  /// `lasts` says whether a stream exists until `leaves` tells of its end. It may be called from
  /// any thread, with locks held.
  StreamBook(Driver& driver, ContextsInUse& contexts, std::function<bool(StreamHandle)> lasts);

  /// What was freed on the stream; its lock must be taken, and its `id` compared, before it is
  /// used: calls of a destroyed stream find another's. Throws: what the driver throws for a new
  /// one.
  StreamFrees& of(StreamHandle handle, std::uint64_t id);
  /// Null if it is not known.
  StreamFrees* known(std::uint64_t id);
  /// Calls `body(frees)` for each stream, with its lock held. It must not call back.
  template <typename Body>
  void for_each(Body&& body);

 private:
  StreamFrees& add(StreamHandle handle, std::uint64_t id) VMART_REQUIRES(mutex_);

  Driver& driver_;
  ContextsInUse& contexts_;
  const std::function<bool(StreamHandle)> lasts_;
  const std::uint64_t number_;  // Of this book, in the process; never used again.
  Mutex mutex_;
  std::deque<StreamFrees> all_ VMART_GUARDED_BY(mutex_);  // Only grows; those of streams that
                                                          // left are used again.
  std::map<std::uint64_t, StreamFrees*> by_id_ VMART_GUARDED_BY(mutex_);
};

template <typename Body>
void StreamBook::for_each(Body&& body) {
  const MutexLock lock(mutex_);
  for (StreamFrees& frees : all_) {
    const MutexLock own(frees.mutex);
    if (frees.id() != StreamFrees::nobody) body(frees);
  }
}

}  // namespace vma
