#pragma once

#include "base/ids.hpp"
#include "base/mutex.hpp"
#include "driver/driver.hpp"
#include "memory/contexts_in_use.hpp"
#include "pools/block.hpp"
#include "pools/pool_uses.hpp"

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace vma {

/// The handle that names another stream in each thread, which ends with the thread.
inline constexpr StreamHandle stream_of_thread{2};

/// True once a thread has ended. Also names the thread: while somebody keeps it, no other thread
/// has the same one.
using ThreadEnd = std::shared_ptr<const std::atomic<bool>>;

/// That of the calling thread.
inline ThreadEnd this_thread_end() {
  struct Flag {
    ~Flag() { *ended = true; }
    const std::shared_ptr<std::atomic<bool>> ended = std::make_shared<std::atomic<bool>>(false);
  };
  thread_local const Flag flag;
  return flag.ended;
}

/// What a pool got back on one stream and may still be in use there: the stream itself reuses it at
/// once, in its order; others when the frees are known to be complete, or when their work runs
/// after them.
///
/// The frees are numbered by epochs. An event, recorded by `mark`, tells when all frees up to its
/// epoch are complete. It is recorded only while the stream surely exists: in a call that names the
/// stream, or at any time if `lasts`. The handle of a stream may be used again for another one, so
/// the number of the stream says which one it is.
///
/// Guarded by `mutex` except `wanted`; the lock of the pool is taken before it.
/// One owner: bins, marks and counters all speak of the epochs of one stream.
class alignas(cache_lines) StreamFrees {
 public:
  static constexpr std::uint64_t nobody = 0;

  /// What is known about the life of the stream.
  enum class Life {
    unknown,   ///< The program may destroy it at any time.
    promised,  ///< The program has promised that it exists as long as frees are pending on it.
    lasts,     ///< It exists until `leaves` tells of its end.
    left,      ///< It was destroyed.
  };

  StreamFrees(Driver& driver, ContextsInUse& contexts);
  /// Requires: the events were given back, or the driver is gone.
  ~StreamFrees() = default;

  Mutex mutex;

  /// From here on it is the stream's, and its epochs come after `epoch`. The stream of a thread
  /// ends with it: null for others. Requires: it was nobody's.
  void become(std::uint64_t id, BoundStream stream, Life life, ThreadEnd thread,
              std::uint64_t epoch) noexcept VMART_REQUIRES(mutex);
  /// Returns its last epoch. Requires: `is_over`.
  std::uint64_t become_nobodys() noexcept VMART_REQUIRES(mutex);
  std::uint64_t id() const noexcept VMART_REQUIRES(mutex) { return id_; }
  BoundStream stream() const noexcept VMART_REQUIRES(mutex) { return stream_; }
  /// Whether the stream exists for certain at this moment.
  bool lasts() const noexcept VMART_REQUIRES(mutex) {
    return (life_ == Life::lasts || life_ == Life::promised) && !leaving_;
  }
  /// Its number until its end is told; `nobody` if its end is not told. Needs no lock.
  std::uint64_t lasting_id() const noexcept { return lasting_id_.load(std::memory_order_relaxed); }
  bool left() const noexcept VMART_REQUIRES(mutex) {
    return life_ == Life::left || (thread_ && *thread_);
  }
  /// Whether the stream has left, and nothing of it is left here.
  bool is_over() const noexcept VMART_REQUIRES(mutex) {
    return left() && bins_.empty() && noted_epoch_ <= done_epoch_;
  }
  /// The stream is about to be destroyed: it is not asked for any more. Then it has left, or it
  /// stays if it could not be destroyed.
  void leaves() noexcept VMART_REQUIRES(mutex) {
    leaving_ = true;
    tell_lasting();
  }
  void stays() noexcept VMART_REQUIRES(mutex) {
    leaving_ = false;
    tell_lasting();
  }
  void leave() noexcept VMART_REQUIRES(mutex) {
    life_ = Life::left;
    leaving_ = false;
    tell_lasting();
  }
  bool leaving() const noexcept VMART_REQUIRES(mutex) { return leaving_; }

  /// A block was freed on the stream.
  void put(Block& block) noexcept VMART_REQUIRES(mutex);
  void remove(Block& block) noexcept VMART_REQUIRES(mutex);
  BlockBins& bins() noexcept VMART_REQUIRES(mutex) { return bins_; }
  const void* holder() const noexcept { return &bins_; }
  /// Up to which put of the bins neighbours were joined.
  std::uint64_t joined_puts VMART_GUARDED_BY(mutex) = 0;
  /// Puts a part of a removed block back, with the epoch that it had.
  void put_back(Block& block) noexcept VMART_REQUIRES(mutex);

  /// A block was freed that somebody else keeps. Returns the epoch of the free, for `is_done`.
  std::uint64_t note() noexcept VMART_REQUIRES(mutex) { return noted_epoch_ = open_epoch_; }

  /// Whether enough was freed without a mark that a call of the stream should make one.
  bool should_mark() const noexcept VMART_REQUIRES(mutex);
  bool unmarked() const noexcept VMART_REQUIRES(mutex) {
    return unmarked_blocks_ > 0 || noted_epoch_ > marked_epoch_;
  }
  bool marked() const noexcept VMART_REQUIRES(mutex) { return !marks_.empty(); }
  /// Records an event behind all frees so far, unless there are many already. Returns whether there
  /// is one for them now. Requires: the stream exists and does not capture.
  bool mark() noexcept VMART_REQUIRES(mutex);
  /// Ends the current epoch; returns it.
  std::uint64_t close_epoch() noexcept VMART_REQUIRES(mutex) { return open_epoch_++; }
  /// All frees up to the epoch are complete, whatever events say.
  void complete(std::uint64_t epoch) noexcept VMART_REQUIRES(mutex);
  /// Asks the events.
  void poll() noexcept VMART_REQUIRES(mutex);
  /// Whether the frees of that epoch are complete. Asks its event, but counts nothing as complete.
  bool is_done(std::uint64_t epoch) noexcept VMART_REQUIRES(mutex);
  /// Up to which epoch the frees are complete.
  std::uint64_t done_epoch() const noexcept VMART_REQUIRES(mutex) { return done_epoch_; }
  /// Whether frees have become complete since the last call that said so.
  bool take_news() noexcept VMART_REQUIRES(mutex);
  /// The newest event and its epoch; none without.
  struct Mark {
    std::uint64_t epoch = 0;
    EventHandle event{};
  };
  Mark newest_mark() const noexcept VMART_REQUIRES(mutex);

  /// Up to which epoch of other streams the work of this one comes after them.
  std::map<std::uint64_t, std::uint64_t> after VMART_GUARDED_BY(mutex);
  /// Another stream found nothing it could use.
  std::atomic<bool> wanted{false};
  /// What the stream has counted of the pool's use.
  PoolUses::Share uses VMART_GUARDED_BY(mutex);

 private:
  void tell_lasting() noexcept VMART_REQUIRES(mutex) {
    lasting_id_ = life_ == Life::lasts && !leaving_ ? id_ : nobody;
  }
  void count_unmarked(std::uint64_t marked_epoch) noexcept VMART_REQUIRES(mutex);
  void drop_marks(std::uint64_t epoch) noexcept VMART_REQUIRES(mutex);
  bool event_is_done(EventHandle event) noexcept VMART_REQUIRES(mutex);

  Driver& driver_;
  ContextsInUse& contexts_;
  std::uint64_t id_ VMART_GUARDED_BY(mutex) = nobody;
  BoundStream stream_ VMART_GUARDED_BY(mutex);
  Life life_ VMART_GUARDED_BY(mutex) = Life::unknown;
  bool leaving_ VMART_GUARDED_BY(mutex) = false;
  std::atomic<std::uint64_t> lasting_id_{nobody};
  ThreadEnd thread_ VMART_GUARDED_BY(mutex);
  BlockBins bins_;
  std::uint64_t open_epoch_ VMART_GUARDED_BY(mutex) = 1;
  std::uint64_t done_epoch_ VMART_GUARDED_BY(mutex) = 0;
  std::uint64_t told_epoch_ VMART_GUARDED_BY(mutex) = 0;
  std::uint64_t noted_epoch_ VMART_GUARDED_BY(mutex) = 0;
  std::uint64_t marked_epoch_ VMART_GUARDED_BY(mutex) = 0;  // Frees up to it have an event, or had.
  std::uint64_t unmarked_blocks_ VMART_GUARDED_BY(mutex) = 0;
  std::uint64_t unmarked_bytes_ VMART_GUARDED_BY(mutex) = 0;
  std::vector<Mark> marks_ VMART_GUARDED_BY(mutex);  // Oldest first; few.
};

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
