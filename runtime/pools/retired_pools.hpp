#pragma once

#include "base/mutex.hpp"
#include "memory/slow_call_queue.hpp"
#include "pools/block_pool.hpp"

#include <memory>
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

}  // namespace vma
