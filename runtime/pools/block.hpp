#pragma once

#include "base/ids.hpp"
#include "base/thread_parts.hpp"
#include "pools/size_classes.hpp"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace vma {

class BlockPool;
class GraphMemory;
struct Slab;

/// Memory of a pool that all its blocks lie in: one Allocation, which moves as any other. Nothing
/// here changes when it does.
struct Segment {
  BlockPool* pool = nullptr;
  Address begin{};
  std::uint64_t size_bytes = 0;
  struct FreeArray {
    void operator()(void* array) const noexcept { std::free(array); }
  };
  /// The block that begins at each step of the segment, or null. Zeroed by the kernel, so that a
  /// table costs only the pages that are used.
  std::unique_ptr<std::atomic<struct Block*>[], FreeArray> starts;

  std::atomic<Block*>& start(Address address) const {
    return starts[(address - begin) / SizeClasses::step_bytes];
  }
};

/// A piece of a segment: what one pointer of the program names, or free. Either a range, which has
/// neighbours, or one of the equal blocks of a slab.
///
/// `holder` is what the block is in; it changes only under the lock of the bins that it names, or
/// from `live` by the thread that frees the block.
struct alignas(cache_lines) Block {
  Address begin{};
  std::uint64_t size_bytes = 0;
  Segment* segment = nullptr;
  Slab* slab = nullptr;  ///< Null for a range.
  // By address; only ranges have neighbours. Guarded by the lock of the pool.
  Block* before = nullptr;
  Block* after = nullptr;
  // In a list. Guarded like the list.
  Block* left = nullptr;
  Block* right = nullptr;
  std::uint64_t put = 0;    ///< Which put of its bins it was.
  std::uint64_t epoch = 0;  ///< Of its stream, at the free.
  /// The graph that keeps it. Changes under the lock of the pool.
  std::atomic<GraphMemory*> graph{nullptr};
  bool freed_late = false;  ///< Of a graph's block: freed outside of the capture.
  bool free_waits = false;  ///< From `vma::alloc`: its free waits for all work.
  std::atomic<const void*> holder{nullptr};

  static constexpr const void* live = nullptr;
};

/// Where a block lies, or all of a segment.
struct BlockPlace {
  Address segment{};
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
};

/// A range cut into equal blocks. Guarded by the lock of the pool.
struct Slab {
  Block* range = nullptr;
  std::uint64_t block_bytes = 0;
  std::uint64_t count = 0;
  std::unique_ptr<Block[]> blocks;
  std::uint64_t ready_count = 0;
  Block* ready = nullptr;  // Linked by `right`.
  // In the list of slabs of its class with ready blocks.
  Slab* left = nullptr;
  Slab* right = nullptr;
};

}  // namespace vma
