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

/// Bytes that are written to a file together.
struct DiskBlock {
  std::vector<std::uint8_t> bytes;
  std::uint32_t records = 0;
};

/// What was not written to a file.
struct Loss {
  std::uint64_t records = 0, blocks = 0;

  Loss& operator+=(const Loss& other) noexcept {
    records += other.records;
    blocks += other.blocks;
    return *this;
  }
  friend bool operator==(const Loss&, const Loss&) = default;
};

/// A destination for blocks. Called by one thread.
class BlockSink {
 public:
  virtual ~BlockSink() = default;
  /// `lost_before` is what was dropped since the last call. Blocks: on the disk.
  virtual void write(const DiskBlock& block, const Loss& lost_before) noexcept = 0;
  /// Called last.
  virtual void finish(const Loss& lost_before) noexcept = 0;
};

/// Takes blocks from threads that must not wait for a disk, and passes them to a sink on its own
/// thread. Bounded: blocks that do not fit are dropped and counted.
class BlockQueue {
 public:
  /// `name` is the name of the thread. The sink must outlive the queue. Requires: blocks_max > 0.
  BlockQueue(Executor& executor, const std::string& name, BlockSink& sink, std::size_t blocks_max);
  /// Calls `close`.
  ~BlockQueue();

  /// Does not block.
  void offer(DiskBlock block) noexcept;
  /// Returns true once everything offered so far is written or dropped, or false once `deadline`
  /// has passed on the steady clock. Blocks: on the sink, until then.
  bool flush_until(TimePoint deadline);
  /// Writes all blocks, finishes the sink and ends the thread. Later offers are dropped.
  /// Idempotent. Blocks: on the sink.
  void close() noexcept;

  /// Counted since the start.
  Loss dropped() const;

 private:
  void work();

  BlockSink& sink_;
  const std::size_t blocks_max_;
  mutable Mutex mutex_;
  Condition changed_;
  std::deque<DiskBlock> waiting_ VMART_GUARDED_BY(mutex_);
  Loss dropped_ VMART_GUARDED_BY(mutex_);
  // The part of `dropped_` that has not been reported to the sink.
  Loss untold_ VMART_GUARDED_BY(mutex_);
  bool writing_ VMART_GUARDED_BY(mutex_) = false;
  bool closed_ VMART_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Task> thread_;  // Null once joined.
};

}  // namespace vma
