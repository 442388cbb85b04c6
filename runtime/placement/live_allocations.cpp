#include "placement/live_allocations.hpp"

#include "base/units.hpp"

#include <algorithm>
#include <utility>

namespace vma::inline v1 {
namespace {

constexpr double life_least_s = 1e-3;  // Uses are told once a millisecond.

}  // namespace

Lifetime LiveAllocations::Allocation::lifetime() const {
  const double life = std::max(life_least_s, in_seconds(last_use - born));
  return {life, std::max(1.0, used_bytes / static_cast<double>(bytes)) / life};
}

LiveAllocations::Number LiveAllocations::add(const Allocation& allocation) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<Number>(all_.size()));
    all_.emplace_back();
  }
  const Number number = unused_.back();
  unused_.pop_back();
  all_[number] = allocation;
  unseen_.push_back(number);
  return number;
}

/// Of the requests that its first chunk may be of, the last one before that was made.
LiveAllocations::Number LiveAllocations::find(ChunkId chunk, const Snapshot& snapshot) {
  const ChunkId first = snapshot.first_of(chunk);
  if (of_chunk_.size() < snapshot.chunks().size()) of_chunk_.resize(snapshot.chunks().size(), none);
  if (of_chunk_[index(first)] != none) return of_chunk_[index(first)];
  const ChunkRow& row = snapshot.chunk(first);
  auto best = unseen_.end();
  for (auto each = unseen_.begin(); each != unseen_.end(); ++each) {
    const Allocation& allocation = all_[*each];
    if (allocation.born > row.born) break;
    if (std::min(allocation.bytes, allocation.chunk_bytes) == row.bytes) best = each;
  }
  if (best == unseen_.end()) return none;
  const Number number = *best;
  unseen_.erase(best);
  all_[number].first = static_cast<std::uint32_t>(first);
  of_chunk_[index(first)] = number;
  return number;
}

LiveAllocations::Number LiveAllocations::gone(ChunkId chunk) {
  if (index(chunk) >= of_chunk_.size()) return none;
  return std::exchange(of_chunk_[index(chunk)], none);
}

void LiveAllocations::forget(Number number) {
  all_[number].lives = false;
  unused_.push_back(number);
}

void LiveAllocations::unseen(Time then, const std::function<void(Allocation&)>& body) {
  for (const Number number : unseen_) {
    if (all_[number].born >= then) break;
    body(all_[number]);
  }
}

void LiveAllocations::drop_unseen(Time then) {
  while (!unseen_.empty() && all_[unseen_.front()].born < then) {
    forget(unseen_.front());
    unseen_.pop_front();
  }
}

}  // namespace vma::inline v1
