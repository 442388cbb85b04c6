#pragma once

#include "driver/driver.hpp"
#include "pools/block.hpp"
#include "pools/stream_book.hpp"

#include <atomic>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace vma {

/// A stream that captures, so the driver does not tell its number. The handle of the thread's own
/// stream names another one in each thread and context.
struct CapturedStream {
  StreamHandle handle{};
  ContextHandle context{};
  ThreadEnd thread;

  static CapturedStream of(Driver& driver, StreamHandle handle);
  friend auto operator<=>(const CapturedStream&, const CapturedStream&) = default;
};

/// The blocks that were allocated in one capture. Their addresses are in the graph, so they stay
/// its own until it is gone: freed in the capture, one is reused by the same stream of that capture
/// only. Afterwards those that the program has freed, there or later, are free. The lock of the
/// pool guards everything but `ended`.
class GraphMemory {
 public:
  explicit GraphMemory(std::uint64_t capture) : capture_(capture) {}

  std::uint64_t capture() const noexcept { return capture_; }
  /// Set by the driver when the graph is gone.
  const std::shared_ptr<std::atomic<bool>>& ended() const noexcept { return ended_; }

  /// The block is the graph's from here on. Throws: std::bad_alloc; then it is not.
  void keep(Block& block);
  /// A block that the stream freed in this capture; null if none fits.
  Block* take(const CapturedStream& stream, std::uint64_t size_bytes, std::uint64_t alignment);
  /// The stream frees the block in this capture. Throws: std::bad_alloc; then it is not freed.
  void put(const CapturedStream& stream, Block& block);
  /// The block is freed on a stream that does not capture, in that epoch of it; may be repeated,
  /// after each launch. Throws: std::bad_alloc; then nothing has changed.
  void free_late(Block& block, std::uint64_t id, std::uint64_t epoch);

  /// Whether the graph is gone.
  bool has_ended() const noexcept { return *ended_; }
  /// Whether the graph is gone and all late frees are complete.
  bool is_over(StreamBook& streams) noexcept;
  /// Calls `let_go(block)` for each block, which is an ordinary one now: a live one, or, with
  /// `freed_late`, one that the program has freed. Requires: `is_over`.
  void release(const std::function<void(Block&)>& let_go);

 private:
  const std::uint64_t capture_;
  const std::shared_ptr<std::atomic<bool>> ended_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<Block*> blocks_;
  std::map<CapturedStream, BlockBins> freed_;
  std::map<std::uint64_t, std::uint64_t> late_frees_;  // By stream: the epoch of the last one.
};

/// The graphs of a pool that keep blocks of it. The lock of the pool guards it.
class GraphMemories {
 public:
  explicit GraphMemories(Driver& driver) : driver_(driver) {}

  /// That of the capture, in which the stream takes part. Throws: what the driver throws.
  GraphMemory& of(StreamHandle stream, std::uint64_t capture);
  /// Lets go of the blocks of graphs that are over, as `GraphMemory::release`.
  void collect(StreamBook& streams, const std::function<void(Block&)>& let_go);
  bool empty() const noexcept { return all_.empty(); }
  /// Whether the driver will tell that one of the graphs is gone.
  bool any_lasts() const noexcept;
  void close() noexcept { all_.clear(); }

 private:
  Driver& driver_;
  std::vector<std::unique_ptr<GraphMemory>> all_;
};

}  // namespace vma
