#pragma once

#include "base/mutex.hpp"
#include "memory/slow_call_queue.hpp"
#include "pools/block_pool.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace vma {

/// The destroyed pools of a runtime, each until it has given everything back. The one place that
/// ends them. Any thread.
///
///     live --retire--> retired --look: nothing is left--> ended
///
/// A pool is looked at when it is retired, by the call that ended its last use (PoolUses tells
/// which one that is), after each call that waits for work, and whenever what it waited for is
/// complete: events and graphs, which the slow-call thread asks for. While blocks are in use, or
/// frees are left that no event stands for, nobody asks: a later call will look.
class RetiredPools final : public LastUses {
 public:
  using PoolPointer = std::shared_ptr<BlockPool>;

  explicit RetiredPools(SlowCallQueue& queue) : queue_(queue) {}
  /// Requires: the queue has stopped, or every pool is empty.
  ~RetiredPools();
  RetiredPools(const RetiredPools&) = delete;
  RetiredPools& operator=(const RetiredPools&) = delete;

  /// No more blocks from this pool. False: it was destroyed before. Throws: std::bad_alloc; then
  /// nothing has changed.
  bool retire(const PoolPointer& pool);
  /// Gives back what it can; ends the pool if that was all. The pool may have ended before. The
  /// caller holds no lock.
  void look(const BlockPool* pool) noexcept override;
  void look_at_all() noexcept;
  std::vector<PoolPointer> all() const;

 private:
  struct Entry {
    PoolPointer pool;
    bool watched = false;  // The slow-call thread will look.
  };

  PoolPointer find(const BlockPool* pool) const noexcept;
  void watch(const PoolPointer& pool, bool idle);
  bool set_watched(const BlockPool* pool, bool watched) noexcept;
  void end(const BlockPool* pool) noexcept;

  SlowCallQueue& queue_;
  mutable Mutex mutex_;
  std::vector<Entry> entries_ VMART_GUARDED_BY(mutex_);
};

/// The pools of a runtime. Any thread.
class Pools {
 public:
  using PoolPointer = std::shared_ptr<BlockPool>;

  /// `lasts` says whether a stream exists until `destroy_stream`. It may be called from any thread,
  /// with locks held.
  Pools(Driver& driver, Memory& memory, std::function<bool(StreamHandle)> lasts);
  /// Requires: the memory is shut down, or every pool is empty.
  ~Pools();

  PoolPointer make(Place at, const PoolOptions& options);
  /// The pool of a place that every runtime has; made by the first call.
  PoolPointer default_pool(Place at);
  PoolPointer current(Place at);
  /// Of the place that the pool is at. Throws: Error{invalid_argument} for a destroyed one.
  void set_current(const PoolPointer& pool);
  /// See `Pool::destroy`.
  void destroy(const PoolPointer& pool);

  /// The block that begins at the address, live or not; null if there is none. Does not block.
  Block* block_at(Address address) const noexcept { return table_.block_at(address); }
  /// Where in its segment the live block lies that contains the address; none if none does.
  std::optional<BlockPlace> block_around(Address address) const;
  Segment* segment_around(Address address) const noexcept { return table_.find(address); }
  static void deallocate(Block& block, StreamHandle stream) {
    block.segment->pool->deallocate(block, stream);
  }
  static void free_now(Block& block) { block.segment->pool->free_now(block); }

  /// Frees until now, in all pools, of one stream or of all; `complete` says that the work before
  /// has ended, in those contexts.
  struct Past {
    std::vector<std::pair<PoolPointer, BlockPool::Past>> pools;
  };
  Past past(std::uint64_t only_stream = StreamFrees::nobody);
  /// Of one stream; nothing if the driver does not tell which one it is.
  Past past_of(StreamHandle stream) noexcept;
  void complete(const Past& past) noexcept;
  void complete(Past past, const std::vector<ContextHandle>& waited) noexcept;
  /// Calls `destroy`, which destroys the stream. Throws: what `destroy` throws; then the stream
  /// counts as before. Requires: it exists.
  void destroy_stream(StreamHandle stream, const std::function<void()>& destroy);

  /// Gives back what pools do not use at the place. Returns the number of bytes. Requires: the
  /// caller holds no lock.
  std::uint64_t make_room(Place at) noexcept;

  /// Pools that have not ended.
  std::size_t count() const { return all().size(); }
  /// Requires: no call is in progress.
  void check_invariants();

 private:
  std::vector<PoolPointer> all() const;

  Driver& driver_;
  Memory& memory_;
  const std::function<bool(StreamHandle)> lasts_;
  SegmentTable table_;
  mutable Mutex mutex_;
  std::vector<PoolPointer> live_ VMART_GUARDED_BY(mutex_);  // The others are in `retired_`.
  std::map<Place, PoolPointer> defaults_ VMART_GUARDED_BY(mutex_);
  std::map<Place, PoolPointer> current_ VMART_GUARDED_BY(mutex_);  // If not the default one.
  RetiredPools retired_;
};

}  // namespace vma
