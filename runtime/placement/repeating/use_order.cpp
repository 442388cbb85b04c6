#include "placement/repeating/use_order.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <utility>

namespace vma::inline v1 {
namespace {

using Key = std::pair<Time, ChunkId>;

Key key_of(const UseOrder::Use& use) {
  return {use.at, use.chunk};
}

}  // namespace

/// The first one that does not end before the use.
std::vector<UseOrder::Block>::iterator UseOrder::block_of(Time at, ChunkId chunk) {
  return std::ranges::lower_bound(blocks_, Key(at, chunk), {},
                                  [](const Block& block) { return key_of(block.back()); });
}

void UseOrder::insert(const Use& use) {
  auto block = block_of(use.at, use.chunk);
  if (block == blocks_.end()) {
    if (blocks_.empty()) blocks_.emplace_back();
    block = std::prev(blocks_.end());
  }
  block->insert(std::ranges::lower_bound(*block, key_of(use), {}, key_of), use);
  if (block->size() <= block_max) return;
  const auto half = block->begin() + block_max / 2;
  Block later(half, block->end());
  block->erase(half, block->end());
  blocks_.insert(block + 1, std::move(later));
}

void UseOrder::erase(Time at, ChunkId chunk) {
  const auto block = block_of(at, chunk);
  VMART_CHECK(block != blocks_.end(), "a use that is erased is there");
  const auto use = std::ranges::lower_bound(*block, Key(at, chunk), {}, key_of);
  VMART_CHECK(key_of(*use) == Key(at, chunk), "a use that is erased is there");
  block->erase(use);
  if (block->empty()) blocks_.erase(block);
}

}  // namespace vma::inline v1
