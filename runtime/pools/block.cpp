#include "pools/block.hpp"

#include "base/units.hpp"

#include <algorithm>
#include <bit>

namespace vma {
namespace {

constexpr int first_power = 12;  // From 4 KiB on.
constexpr int steps_power = 4;   // 16 classes for each power of two.
constexpr std::uint64_t large_step_bytes = 64 * KiB;

constexpr int looks_max = 16;  // Blocks of a bin that are looked at.

bool holds(const Block& block, std::uint64_t size_bytes, std::uint64_t alignment) noexcept {
  const std::uint64_t begin = to_integer(block.begin);
  return round_up(begin, alignment) + size_bytes <= begin + block.size_bytes;
}

/// Whether the block serves the request as it is, without much waste.
bool is_close(const Block& block, std::uint64_t size_bytes, std::uint64_t alignment) noexcept {
  return block.size_bytes >= size_bytes && block.size_bytes <= size_bytes + size_bytes / 8 &&
         to_integer(block.begin) % alignment == 0;
}

/// Whether a part of it does. Blocks of slabs are not cut.
bool fits(const Block& block, std::uint64_t size_bytes, std::uint64_t alignment) noexcept {
  return block.slab == nullptr ? holds(block, size_bytes, alignment)
                               : is_close(block, size_bytes, alignment);
}

}  // namespace

std::uint64_t SizeClasses::rounded(std::uint64_t bytes) noexcept {
  if (bytes <= std::uint64_t{1} << first_power) return round_up(bytes, step_bytes);
  if (bytes > MiB) return round_up(bytes, large_step_bytes);
  const int power = std::bit_width(bytes - 1) - 1;
  return round_up(bytes, std::uint64_t{1} << (power - steps_power));
}

std::size_t SizeClasses::bin_of(std::uint64_t size_bytes) noexcept {
  if (size_bytes < std::uint64_t{1} << first_power) return size_bytes / step_bytes - 1;
  const int power = std::bit_width(size_bytes) - 1;
  const std::size_t step = (size_bytes >> (power - steps_power)) - 16;
  const std::size_t bin = 15 + static_cast<std::size_t>(power - first_power) * 16 + step;
  return std::min(bin, bins - 1);
}

std::uint64_t SizeClasses::blocks_of_slab(std::uint64_t size_bytes) noexcept {
  return std::clamp<std::uint64_t>(64 * KiB / size_bytes, 4, 64);
}

void BlockBins::put(Block& block) noexcept {
  const std::size_t bin = SizeClasses::bin_of(block.size_bytes);
  block.put = ++puts_;
  block.left = nullptr;
  block.right = bins_[bin];
  if (block.right != nullptr) block.right->left = &block;
  bins_[bin] = &block;
  used_[bin / 64] |= std::uint64_t{1} << (bin % 64);
  bytes_ += block.size_bytes;
  block.holder.store(this, std::memory_order_release);
}

void BlockBins::remove(Block& block) noexcept {
  if (block.right != nullptr) block.right->left = block.left;
  if (block.left != nullptr) {
    block.left->right = block.right;
  } else {
    const std::size_t bin = SizeClasses::bin_of(block.size_bytes);
    bins_[bin] = block.right;
    if (block.right == nullptr) used_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
  }
  bytes_ -= block.size_bytes;
}

Block* BlockBins::close_fit(std::uint64_t size_bytes, std::uint64_t alignment) const noexcept {
  int looks = 0;
  for (Block* block = bins_[SizeClasses::bin_of(size_bytes)]; block != nullptr;
       block = block->right) {
    if (is_close(*block, size_bytes, alignment)) return block;
    if (++looks == looks_max) break;
  }
  return nullptr;
}

Block* BlockBins::best_fit(std::uint64_t size_bytes, std::uint64_t alignment,
                           std::uint64_t bytes_max, std::uint64_t epoch_max) const noexcept {
  for (std::size_t bin = next_used(SizeClasses::bin_of(size_bytes)); bin < bins_.size();
       bin = next_used(bin + 1)) {
    Block* best = nullptr;
    int looks = 0;
    for (Block* block = bins_[bin]; block != nullptr && looks < looks_max; block = block->right) {
      ++looks;
      if (block->epoch > epoch_max || !fits(*block, size_bytes, alignment)) continue;
      if (best == nullptr || block->size_bytes < best->size_bytes) best = block;
    }
    if (best != nullptr) return best->size_bytes <= bytes_max ? best : nullptr;
  }
  return nullptr;
}

std::size_t BlockBins::next_used(std::size_t bin) const noexcept {
  for (std::size_t word = bin / 64; word < words; ++word) {
    std::uint64_t bits = used_[word];
    if (word == bin / 64) bits &= ~std::uint64_t{0} << (bin % 64);
    if (bits != 0) return word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
  }
  return SizeClasses::bins;
}

}  // namespace vma
