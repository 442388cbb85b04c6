#include "placement/weighing/cold_order.hpp"

namespace vma::inline v1 {

void ColdOrder::put(ChunkId chunk, PlaceId at, std::int64_t warmth) {
  if (index(chunk) >= links_.size()) links_.resize(index(chunk) * 2 + 1);
  if (index(at) >= lists_.size()) lists_.resize(index(at) + 1);
  Link& link = links_[index(chunk)];
  if (link.listed && link.at == at && link.warmth == warmth) return;
  remove(chunk);
  const auto number = static_cast<std::uint32_t>(chunk);
  Ends& ends = lists_[index(at)][warmth];
  link = {warmth, ends.last, none, at, true};
  if (ends.last != none) links_[ends.last].after = number;
  if (ends.first == none) ends.first = number;
  ends.last = number;
}

void ColdOrder::remove(ChunkId chunk) {
  if (!holds(chunk)) return;
  Link& link = links_[index(chunk)];
  Lists& lists = lists_[index(link.at)];
  const auto found = lists.find(link.warmth);
  Ends& ends = found->second;
  (link.before == none ? ends.first : links_[link.before].after) = link.after;
  (link.after == none ? ends.last : links_[link.after].before) = link.before;
  link.listed = false;
  if (ends.first == none) lists.erase(found);
}

std::optional<ChunkId> ColdOrder::coldest(PlaceId at) const {
  if (index(at) >= lists_.size() || lists_[index(at)].empty()) return std::nullopt;
  return ChunkId{lists_[index(at)].begin()->second.first};
}

std::optional<ChunkId> ColdOrder::after(ChunkId chunk) const {
  const Link& link = links_[index(chunk)];
  if (link.after != none) return ChunkId{link.after};
  const Lists& lists = lists_[index(link.at)];
  const auto warmer = lists.upper_bound(link.warmth);
  if (warmer == lists.end()) return std::nullopt;
  return ChunkId{warmer->second.first};
}

}  // namespace vma::inline v1
