#pragma once

#include "pools/stream_frees.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

namespace vma {

/// The streams that a pool knows. Each thread remembers the last few that it named, so that its
/// next call finds them without a lock. Any thread; the lock of the pool is taken before those
/// here.
class StreamBook {
 public:
  /// What is known about a stream that is named for the first time.
  using Lives = std::function<StreamFrees::Life(StreamHandle)>;

  /// `lives` may be called from any thread, with locks held.
  StreamBook(Driver& driver, ContextsInUse& contexts, Lives lives);

  /// The stream's number, or its capture. Throws: what the driver throws.
  StreamNow now(StreamHandle handle);

  // `body(frees)` gets what was freed on a stream, with its lock held. It must not call back. It
  // says so by VMART_REQUIRES(frees.mutex), which Clang checks in it, but not here.

  /// Calls `body` for that stream, and returns what it returns. Throws: what the driver throws for
  /// a new one.
  template <typename Body>
  auto with(StreamHandle handle, std::uint64_t id, Body&& body) VMART_NO_THREAD_ANALYSIS;
  /// Calls `body` for that stream if it is known.
  template <typename Body>
  void with_known(std::uint64_t id, Body&& body) VMART_NO_THREAD_ANALYSIS;
  /// Calls `body` for each stream.
  template <typename Body>
  void for_each(Body&& body) VMART_NO_THREAD_ANALYSIS;

  /// The frees of a stream until now.
  struct Epoch {
    std::uint64_t id = 0;
    ContextHandle context{};
    std::uint64_t epoch = 0;
  };
  /// Those of all streams, or of one.
  std::vector<Epoch> past(std::uint64_t only_stream);
  /// What is known about the frees of all streams.
  struct Known {
    bool marked = false;    ///< Events tell when some are complete.
    bool unmarked = false;  ///< Nothing tells when some are complete.
  };
  Known known();
  /// A stream, as a call names it.
  struct Named {
    StreamHandle handle{};
    std::uint64_t id = 0;
  };
  /// See `Pool::order`.
  void order(Named after, Named before);
  /// The stream is about to be destroyed; `has_left` says whether it was. Requires: it exists.
  void leaves(StreamHandle stream) noexcept;
  void has_left(StreamHandle stream, bool left) noexcept;

 private:
  StreamFrees& of(StreamHandle handle, std::uint64_t id, bool remembers);
  StreamFrees* find(std::uint64_t id);
  StreamFrees& add(StreamHandle handle, std::uint64_t id) VMART_REQUIRES(mutex_);

  Driver& driver_;
  ContextsInUse& contexts_;
  const Lives lives_;
  const std::uint64_t number_;  // Of this book, in the process; never used again.
  Mutex mutex_;
  std::deque<StreamFrees> all_ VMART_GUARDED_BY(mutex_);  // Only grows; those of streams that
                                                          // left are used again.
  std::map<std::uint64_t, StreamFrees*> by_id_ VMART_GUARDED_BY(mutex_);
  // Of streams that left. A stream that comes back has later ones, so no epoch means two frees.
  std::uint64_t last_epoch_ VMART_GUARDED_BY(mutex_) = 0;
};

/// Until the lock is held, another thread may let a new stream use what a destroyed one had, also
/// what this thread remembers of it. By its number, a stream is then found, or added.
template <typename Body>
auto StreamBook::with(StreamHandle handle, std::uint64_t id, Body&& body) {
  for (bool remembers = true;; remembers = false) {
    StreamFrees& frees = of(handle, id, remembers);
    const MutexLock own(frees.mutex);
    if (frees.id() == id) return body(frees);
  }
}

template <typename Body>
void StreamBook::with_known(std::uint64_t id, Body&& body) {
  StreamFrees* const frees = find(id);
  if (frees == nullptr) return;
  const MutexLock own(frees->mutex);
  if (frees->id() == id) body(*frees);
}

template <typename Body>
void StreamBook::for_each(Body&& body) {
  const MutexLock lock(mutex_);
  for (StreamFrees& frees : all_) {
    const MutexLock own(frees.mutex);
    if (frees.id() != StreamFrees::nobody) body(frees);
  }
}

}  // namespace vma
