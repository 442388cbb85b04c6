#pragma once

#include "driver/driver.hpp"
#include "memory/contexts_in_use.hpp"
#include "pools/block_bins.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <vector>

namespace vma {

/// The blocks that were allocated in one capture. Their addresses are in the graph, so they stay
/// its own until it is gone: freed in the capture, one is reused by the same stream of that capture
/// only. Afterwards those that the program has freed, there or later, are free. The lock of the
/// pool guards everything but `ended`.
class GraphMemory {
 public:
  GraphMemory(Driver& driver, ContextsInUse& contexts, std::uint64_t capture)
      : driver_(driver), contexts_(contexts), capture_(capture) {}

  std::uint64_t capture() const noexcept { return capture_; }
  /// Set by the driver when the graph is gone.
  const std::shared_ptr<std::atomic<bool>>& ended() const noexcept { return ended_; }

  /// The block is the graph's from here on. Throws: std::bad_alloc; then it is not.
  void keep(Block& block);
  /// A block that the stream freed in this capture; null if none fits.
  Block* take(StreamHandle stream, std::uint64_t size_bytes, std::uint64_t alignment);
  /// The stream frees the block in this capture. Throws: std::bad_alloc; then it is not freed.
  void put(StreamHandle stream, Block& block);
  /// The block is freed after the work that is now on a stream that does not capture; may be
  /// repeated, after each launch. Throws: what the driver throws; then nothing has changed.
  void free_late(Block& block, BoundStream stream, std::uint64_t id);

  /// Whether the graph is gone and all late frees are complete.
  bool is_over() noexcept;
  /// Calls `let_go(block)` for each block, which is an ordinary one now: a live one, or, with
  /// `freed_late`, one that the program has freed. Requires: `is_over`.
  void release(const std::function<void(Block&)>& let_go);
  /// Gives the events back.
  void forget_events() noexcept;

 private:
  struct LateFree {
    BoundStream stream;
    EventHandle event{};
  };

  Driver& driver_;
  ContextsInUse& contexts_;
  const std::uint64_t capture_;
  const std::shared_ptr<std::atomic<bool>> ended_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<Block*> blocks_;
  std::map<StreamHandle, BlockBins> freed_;
  std::map<std::uint64_t, LateFree> late_frees_;  // By stream: the last one of each.
};

/// The graphs of a pool that keep blocks of it. The lock of the pool guards it.
class GraphMemories {
 public:
  GraphMemories(Driver& driver, ContextsInUse& contexts) : driver_(driver), contexts_(contexts) {}

  /// That of the capture, in which the stream takes part. Throws: what the driver throws.
  GraphMemory& of(StreamHandle stream, std::uint64_t capture);
  /// Lets go of the blocks of graphs that are over, as `GraphMemory::release`.
  void collect(const std::function<void(Block&)>& let_go);
  bool empty() const noexcept { return all_.empty(); }
  /// Gives the events of all of them back, and forgets them.
  void close() noexcept;

 private:
  Driver& driver_;
  ContextsInUse& contexts_;
  std::vector<std::unique_ptr<GraphMemory>> all_;
};

}  // namespace vma
