#pragma once

#include "base/mutex.hpp"
#include "pools/block.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace vma {

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
