#pragma once

#include "base/ids.hpp"
#include "base/mutex.hpp"
#include "base/thread_parts.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace vma {

class BlockPool;
class GraphMemory;
struct Slab;

/// Sizes of blocks and the bins for them: multiples of 256 bytes up to 4 KiB, then 16 sizes for
/// each power of two up to 1 MiB, then multiples of 64 KiB. So a block larger than 4 KiB exceeds
/// what was asked by at most 1/16, and by 3 % on average over all sizes.
///
/// The bins go on with 16 for each power of two. A bin has the blocks that are at least as large as
/// its class and smaller than the next, which are all equal up to 1 MiB unless blocks were split.
class SizeClasses {
 public:
  static constexpr std::uint64_t step_bytes = 256;             ///< The alignment of every block.
  static constexpr std::uint64_t small_bytes_max = 16 * 1024;  ///< Larger ones are in no slab.
  static constexpr std::size_t bins = 16 + 34 * 16;            ///< Up to 64 TiB.

  /// The size of a block for a request. Requires: 0 < `bytes` <= 2^45.
  static std::uint64_t rounded(std::uint64_t bytes) noexcept;
  /// The bin of the largest class that is not larger. Requires: at least `step_bytes`.
  static std::size_t bin_of(std::uint64_t size_bytes) noexcept;
  /// How many blocks a slab has. Requires: a rounded size of at most `small_bytes_max`.
  static std::uint64_t blocks_of_slab(std::uint64_t size_bytes) noexcept;
};

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

/// Free blocks by size, in lists through the blocks themselves, so that nothing here needs memory.
/// Finds a good fit in constant time, as TLSF does (M. Masmano et al., ECRTS 2004): the best of the
/// first blocks of the first bin that can have one. Its owner guards it.
class BlockBins {
 public:
  BlockBins() = default;
  BlockBins(const BlockBins&) = delete;
  BlockBins& operator=(const BlockBins&) = delete;

  /// The block has this holder from here on, and is the first that is found again.
  void put(Block& block) noexcept;
  /// Requires: the block is here. The caller sets its holder.
  void remove(Block& block) noexcept;
  /// A block that is not larger than needed by more than 1/8; null if there is none among the first
  /// few of its size.
  Block* close_fit(std::uint64_t size_bytes, std::uint64_t alignment) const noexcept;
  /// A block that holds an aligned range of that size, of those of up to `bytes_max` with an epoch
  /// up to `epoch_max`.
  Block* best_fit(std::uint64_t size_bytes, std::uint64_t alignment,
                  std::uint64_t bytes_max = UINT64_MAX,
                  std::uint64_t epoch_max = UINT64_MAX) const noexcept;

  /// `body` may remove the block that it is called with. The locks that it requires are the
  /// caller's: Clang checks them in `body` only.
  template <typename Body>
  void for_each(Body&& body) VMART_NO_THREAD_ANALYSIS {
    for_each_since(0, body);
  }
  /// The same for blocks that were put here after `puts` returned that number.
  template <typename Body>
  void for_each_since(std::uint64_t number, Body&& body) VMART_NO_THREAD_ANALYSIS;
  std::uint64_t puts() const noexcept { return puts_; }

  std::uint64_t bytes() const noexcept { return bytes_; }
  bool empty() const noexcept { return bytes_ == 0; }
  bool has(const Block& block) const noexcept { return block.holder.load() == this; }

 private:
  static constexpr std::size_t words = (SizeClasses::bins + 63) / 64;

  std::size_t next_used(std::size_t bin) const noexcept;

  std::array<Block*, SizeClasses::bins> bins_{};
  std::array<std::uint64_t, words> used_{};  // A bit for each bin that is not empty.
  std::uint64_t bytes_ = 0;
  std::uint64_t puts_ = 0;
};

// The newest of a bin comes first.
template <typename Body>
void BlockBins::for_each_since(std::uint64_t number, Body&& body) {
  for (std::size_t bin = next_used(0); bin < bins_.size(); bin = next_used(bin + 1)) {
    for (Block* block = bins_[bin]; block != nullptr && block->put > number;) {
      Block* const next = block->right;
      body(*block);
      block = next;
    }
  }
}

}  // namespace vma
