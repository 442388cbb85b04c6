#include "pools/free_space.hpp"

#include "base/check.hpp"
#include "base/units.hpp"

#include <algorithm>
#include <utility>

namespace vma {
namespace {

// Holders of what is neither live nor in bins.
const char in_no_bins = 0, in_pieces = 0, ended = 0;

}  // namespace

Block& FreeSpace::reserve() {
  Block& range = new_range();
  range.holder = &in_no_bins;
  return range;
}

void FreeSpace::add(Segment& segment, Block& range) noexcept {
  range.begin = segment.begin;
  range.size_bytes = segment.size_bytes;
  range.segment = &segment;
  segment.start(range.begin) = &range;
  ranges_.put(range);
}

void FreeSpace::withdraw(Segment& segment) noexcept {
  Block& range = *segment.start(segment.begin);
  ranges_.remove(range);
  range.holder = &in_no_bins;
}

void FreeSpace::restore(Segment& segment) noexcept {
  ranges_.put(*segment.start(segment.begin));
}

void FreeSpace::remove(Segment& segment) noexcept {
  end(*segment.start(segment.begin));
}

bool FreeSpace::is_idle(const Segment& segment) const noexcept {
  const Block& first = *segment.start(segment.begin);
  return ranges_.has(first) && first.size_bytes == segment.size_bytes;
}

Block* FreeSpace::take(std::uint64_t size_bytes, std::uint64_t alignment, std::uint64_t slack_bytes,
                       std::uint64_t bytes_max) {
  Block* const found = ranges_.best_fit(size_bytes, alignment, bytes_max);
  if (found == nullptr) return nullptr;
  ranges_.remove(*found);
  found->holder = &in_no_bins;
  try {
    return cut(*found, size_bytes, alignment, slack_bytes,
               [this](Block& spare) { ranges_.put(spare); });
  } catch (...) {
    ranges_.put(*found);
    throw;
  }
}

Block* FreeSpace::cut(Block& range, std::uint64_t size_bytes, std::uint64_t alignment,
                      std::uint64_t slack_bytes, const std::function<void(Block&)>& spare) {
  const std::uint64_t begin = to_integer(range.begin);
  const std::uint64_t front_bytes = round_up(begin, alignment) - begin;
  std::uint64_t rest_bytes = range.size_bytes - front_bytes - size_bytes;
  if (rest_bytes <= slack_bytes) size_bytes += std::exchange(rest_bytes, 0);
  Block* const front = front_bytes > 0 ? &new_range() : nullptr;
  Block* rest = nullptr;
  try {
    if (rest_bytes > 0) rest = &new_range();
  } catch (...) {
    if (front != nullptr) end(*front);
    throw;
  }
  const auto insert = [&](Block& piece, Address at, std::uint64_t piece_bytes, Block* before,
                          Block* after) {
    piece.begin = at;
    piece.size_bytes = piece_bytes;
    piece.segment = range.segment;
    piece.epoch = range.epoch;
    piece.before = before;
    piece.after = after;
    if (before != nullptr) before->after = &piece;
    if (after != nullptr) after->before = &piece;
    range.segment->start(at) = &piece;
  };
  const Address whole = range.begin;
  range.begin = whole + front_bytes;
  range.size_bytes = size_bytes;
  range.segment->start(range.begin) = &range;
  if (front != nullptr) insert(*front, whole, front_bytes, range.before, &range);
  if (rest != nullptr) insert(*rest, range.begin + size_bytes, rest_bytes, &range, range.after);
  if (front != nullptr) spare(*front);
  if (rest != nullptr) spare(*rest);
  return &range;
}

void FreeSpace::put(Block& block) noexcept {
  block.graph = nullptr;
  block.epoch = 0;
  if (block.slab != nullptr) return put_small(block);
  ranges_.put(join_free_neighbours(block));
}

Block& FreeSpace::join_free_neighbours(Block& range) noexcept {
  Block* joined = &range;
  if (range.after != nullptr && ranges_.has(*range.after)) {
    ranges_.remove(*range.after);
    join(range, *range.after);
  }
  if (range.before != nullptr && ranges_.has(*range.before)) {
    joined = range.before;
    ranges_.remove(*joined);
    joined->epoch = range.epoch;
    join(*joined, range);
    joined->holder = &in_no_bins;
  }
  return *joined;
}

void FreeSpace::join(Block& range, Block& following) noexcept {
  range.size_bytes += following.size_bytes;
  range.epoch = std::max(range.epoch, following.epoch);
  range.after = following.after;
  if (range.after != nullptr) range.after->before = &range;
  end(following);
}

Block& FreeSpace::new_range() {
  if (unused_ == nullptr) return blocks_.emplace_back();
  Block& block = *std::exchange(unused_, unused_->right);
  block.right = nullptr;
  return block;
}

void FreeSpace::end(Block& range) noexcept {
  if (range.segment != nullptr) range.segment->start(range.begin) = nullptr;
  range.segment = nullptr;
  range.before = range.after = range.left = nullptr;
  range.graph = nullptr;
  range.epoch = 0;
  range.holder = &ended;
  range.right = unused_;
  unused_ = &range;
}

// --- Slabs

void FreeSpace::make_slab(Block& range, std::uint64_t block_bytes) {
  Slab& slab = new_slab(block_bytes);
  slab.range = &range;
  range.holder = &in_pieces;
  for (std::uint64_t i = 0; i < slab.count; ++i) {
    Block& block = slab.blocks[i];
    block.begin = range.begin + i * block_bytes;
    block.segment = range.segment;
    block.epoch = 0;
    range.segment->start(block.begin) = &block;
    block.holder = &slab;
    block.right = std::exchange(slab.ready, &block);
  }
  slab.ready_count = slab.count;
  slab_ready_bytes_ += slab.count * block_bytes;
  list(slab);
}

Slab& FreeSpace::new_slab(std::uint64_t block_bytes) {
  Slab*& unused = unused_slabs_[SizeClasses::bin_of(block_bytes)];
  if (unused != nullptr) return *std::exchange(unused, unused->right);
  const std::uint64_t count = SizeClasses::blocks_of_slab(block_bytes);
  auto blocks = std::make_unique<Block[]>(count);
  Slab& slab = all_slabs_.emplace_back();
  slab.block_bytes = block_bytes;
  slab.count = count;
  slab.blocks = std::move(blocks);
  for (std::uint64_t i = 0; i < count; ++i) {
    slab.blocks[i].size_bytes = block_bytes;
    slab.blocks[i].slab = &slab;
  }
  return slab;
}

Block* FreeSpace::take_small(std::uint64_t size_bytes) noexcept {
  Slab* const slab = slabs_[SizeClasses::bin_of(size_bytes)];
  if (slab == nullptr) return nullptr;
  Block* const block = std::exchange(slab->ready, slab->ready->right);
  slab_ready_bytes_ -= block->size_bytes;
  if (--slab->ready_count == 0) unlist(*slab);
  block->holder = &in_no_bins;
  return block;
}

void FreeSpace::put_small(Block& block) noexcept {
  Slab& slab = *block.slab;
  block.holder = &slab;
  block.right = std::exchange(slab.ready, &block);
  slab_ready_bytes_ += block.size_bytes;
  if (slab.ready_count++ == 0) list(slab);
  if (slab.ready_count < slab.count) return;
  unlist(slab);
  slab_ready_bytes_ -= slab.count * slab.block_bytes;
  Block& range = *slab.range;
  for (std::uint64_t i = 0; i < slab.count; ++i) {
    range.segment->start(slab.blocks[i].begin) = nullptr;
    slab.blocks[i].holder = &ended;
  }
  range.segment->start(range.begin) = &range;
  range.holder = &in_no_bins;
  slab.ready = nullptr;
  slab.right = std::exchange(unused_slabs_[SizeClasses::bin_of(slab.block_bytes)], &slab);
  put(range);
}

void FreeSpace::list(Slab& slab) noexcept {
  Slab*& first = slabs_[SizeClasses::bin_of(slab.block_bytes)];
  slab.left = nullptr;
  slab.right = first;
  if (first != nullptr) first->left = &slab;
  first = &slab;
}

void FreeSpace::unlist(Slab& slab) noexcept {
  if (slab.right != nullptr) slab.right->left = slab.left;
  if (slab.left != nullptr) {
    slab.left->right = slab.right;
  } else {
    slabs_[SizeClasses::bin_of(slab.block_bytes)] = slab.right;
  }
}

void FreeSpace::check_invariants(const Segment& segment) const {
  Address at = segment.begin;
  const Block* last = nullptr;
  for (const Block* range = segment.start(at); range != nullptr; range = range->after) {
    if (range->slab != nullptr) range = range->slab->range;  // Its first block has its place.
    VMART_CHECK(range->begin == at, "ranges cover a segment without gaps");
    VMART_CHECK(range->before == last, "neighbours know each other");
    VMART_CHECK(last == nullptr || !has(*last) || !has(*range), "free neighbours are joined");
    last = range;
    at = at + range->size_bytes;
  }
  VMART_CHECK(at - segment.begin == segment.size_bytes, "ranges cover the whole segment");
}

}  // namespace vma
