#pragma once

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "base/mutex.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace vma {

/// Bytes that belong together in a file.
struct DiskBlock {
  std::vector<std::uint8_t> bytes;
  std::uint32_t records = 0;
};

/// What did not get into a file.
struct Loss {
  std::uint64_t records = 0, blocks = 0;

  Loss& operator+=(const Loss& other) noexcept {
    records += other.records;
    blocks += other.blocks;
    return *this;
  }
  friend bool operator==(const Loss&, const Loss&) = default;
};

/// Where blocks end up. One thread calls it.
class BlockSink {
 public:
  virtual ~BlockSink() = default;
  /// `lost_before`: what was dropped since the last call. Blocks: as long as the disk does.
  virtual void write(const DiskBlock& block, const Loss& lost_before) noexcept = 0;
  /// Nothing follows.
  virtual void finish(const Loss& lost_before) noexcept = 0;
};

/// Takes blocks from threads that must not wait for a disk, and hands them to a sink on a thread of
/// its own. Holds so many and no more: what comes when it is full is dropped and counted.
class BlockQueue {
 public:
  /// `name` is the thread's. The sink outlives the queue. Requires: blocks_max > 0.
  BlockQueue(Executor& executor, const std::string& name, BlockSink& sink, std::size_t blocks_max);
  /// Closes.
  ~BlockQueue();

  /// Does not block.
  void offer(DiskBlock block) noexcept;
  /// Returns when all that was offered is written or dropped: true; or, false, when `deadline` has
  /// passed on the steady clock. Blocks: as the sink does, until then.
  bool drain_until(TimePoint deadline);
  /// Writes what it holds, finishes the sink and ends the thread; what is offered later is dropped.
  /// Idempotent. Blocks: as the sink does.
  void close() noexcept;

  /// Since the start.
  Loss dropped() const;

 private:
  void work();

  BlockSink& sink_;
  const std::size_t blocks_max_;
  mutable Mutex mutex_;
  Condition changed_;
  std::deque<DiskBlock> waiting_ VMART_GUARDED_BY(mutex_);
  Loss dropped_ VMART_GUARDED_BY(mutex_);
  Loss untold_ VMART_GUARDED_BY(mutex_);  // Of `dropped_`, what the sink has not heard of.
  bool writing_ VMART_GUARDED_BY(mutex_) = false;
  bool closed_ VMART_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Task> thread_;  // Null once joined.
};

}  // namespace vma
