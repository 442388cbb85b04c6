#pragma once

#include "pools/block.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <functional>

namespace vma {

/// The address space of a pool's segments: cuts them into blocks, and joins neighbours that are
/// free again. What is free here is complete: any stream may have it. The lock of the pool guards
/// everything.
class FreeSpace {
 public:
  /// A range for a segment that is to be added, or for `unreserve`. Throws: std::bad_alloc.
  Block& reserve();
  void unreserve(Block& range) noexcept { end(range); }
  /// Adds a segment, all of it free. Requires: the range is from `reserve`.
  void add(Segment& segment, Block& range) noexcept;
  /// Nobody gets any of the segment until it is removed or restored. Requires: `is_idle`.
  void withdraw(Segment& segment) noexcept;
  void restore(Segment& segment) noexcept;
  /// Requires: withdrawn.
  void remove(Segment& segment) noexcept;
  /// Whether all of the segment is free and complete.
  bool is_idle(const Segment& segment) const noexcept;

  /// A free range, cut out of one of up to `bytes_max`; null if there is none. It keeps a rest of
  /// up to `slack_bytes`. Throws: std::bad_alloc; then nothing has changed.
  Block* take(std::uint64_t size_bytes, std::uint64_t alignment, std::uint64_t slack_bytes,
              std::uint64_t bytes_max = UINT64_MAX);
  /// Cuts an aligned block of that size out of a range that is in no bins, and gives what it cuts
  /// off to `spare`. Requires: it fits. Throws: std::bad_alloc; then nothing has changed.
  Block* cut(Block& range, std::uint64_t size_bytes, std::uint64_t alignment,
             std::uint64_t slack_bytes, const std::function<void(Block&)>& spare);
  /// What a block of that size may exceed it by, rather than leave a small range.
  static std::uint64_t slack_of(std::uint64_t size_bytes) noexcept { return size_bytes / 16; }
  /// A block whose free is complete. Requires: it is in no bins.
  void put(Block& block) noexcept;
  /// Joins the range with the range behind it, which is in no bins; that one ends.
  void join(Block& range, Block& following) noexcept;
  /// Joins a range with those beside it that are free here. Requires: it is in no bins.
  Block& join_free_neighbours(Block& range) noexcept;

  /// Whether the size is one of blocks in slabs.
  static bool is_small(std::uint64_t size_bytes, std::uint64_t alignment) noexcept {
    return size_bytes <= SizeClasses::small_bytes_max && alignment <= SizeClasses::step_bytes;
  }
  /// Cuts the range into blocks, which are free here. Requires: in no bins, of `slab_bytes`.
  /// Throws: std::bad_alloc; then nothing has changed.
  void make_slab(Block& range, std::uint64_t block_bytes);
  static std::uint64_t slab_bytes(std::uint64_t block_bytes) noexcept {
    return block_bytes * SizeClasses::blocks_of_slab(block_bytes);
  }
  Block* take_small(std::uint64_t size_bytes) noexcept;

  bool has(const Block& block) const noexcept { return ranges_.has(block); }
  std::uint64_t ready_bytes() const noexcept { return ranges_.bytes() + slab_ready_bytes_; }
  /// Ranges and slabs cover every segment without gaps. Requires: no call is in progress.
  void check_invariants(const Segment& segment) const;

 private:
  static constexpr std::size_t slab_classes = 16 + 32;

  Block& new_range();
  void end(Block& range) noexcept;
  void put_small(Block& block) noexcept;
  Slab& new_slab(std::uint64_t block_bytes);
  void list(Slab& slab) noexcept;
  void unlist(Slab& slab) noexcept;

  BlockBins ranges_;
  std::array<Slab*, slab_classes> slabs_{};  // With ready blocks, by bin.
  std::array<Slab*, slab_classes> unused_slabs_{};
  std::deque<Slab> all_slabs_;  // Never freed, like the blocks.
  std::uint64_t slab_ready_bytes_ = 0;
  std::deque<Block> blocks_;  // Never freed: a stale pointer may still be looked up.
  Block* unused_ = nullptr;   // Linked by `right`.
};

}  // namespace vma
