#include "placement/repeating/use_calendar.hpp"

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

void UseCalendar::put(ChunkId chunk, const NextUse& use, Time now, PlaceId at,
                      std::uint16_t pays_below) {
  if (index(chunk) >= entries_.size()) entries_.resize(index(chunk) + 1);
  if (index(at) >= at_.size()) at_.resize(index(at) + 1);
  Entry& entry = entries_[index(chunk)];
  // The usual case: it is predicted again, with the same answer.
  const bool stays = entry.known && entry.at == at && entry.use.at == use.at &&
                     entry.use.device == use.device && entry.pays_below == pays_below;
  if (!stays) {
    drop(chunk);
    const UseOrder::Use listed{use.at, chunk, use.device, at, pays_below};
    order_.insert(listed);
    at_[index(at)].insert(listed);
  }
  entry = {use, now, at, true, pays_below};
}

void UseCalendar::drop(ChunkId chunk) {
  if (!has(chunk)) return;
  Entry& entry = entries_[index(chunk)];
  order_.erase(entry.use.at, chunk);
  at_[index(entry.at)].erase(entry.use.at, chunk);
  entry = {};
}

const UseCalendar::Entry& UseCalendar::operator[](ChunkId chunk) const {
  static const Entry none;
  return index(chunk) < entries_.size() ? entries_[index(chunk)] : none;
}

}  // namespace vma::inline v1
