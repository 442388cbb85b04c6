#include "placement/repeating/use_calendar.hpp"

#include <ranges>

namespace vma::inline v1 {

void UseCalendar::put(ChunkId chunk, const NextUse& use, Time now, PlaceId at) {
  drop(chunk);
  if (index(chunk) >= entries_.size()) entries_.resize(index(chunk) + 1);
  if (index(at) >= at_.size()) at_.resize(index(at) + 1);
  entries_[index(chunk)] = {use, now, at, true};
  order_.emplace(use.at, chunk);
  at_[index(at)].emplace(use.at, chunk);
}

void UseCalendar::drop(ChunkId chunk) {
  if (!has(chunk)) return;
  Entry& entry = entries_[index(chunk)];
  order_.erase({entry.use.at, chunk});
  at_[index(entry.at)].erase({entry.use.at, chunk});
  entry = {};
}

const UseCalendar::Entry& UseCalendar::operator[](ChunkId chunk) const {
  static const Entry none;
  return index(chunk) < entries_.size() ? entries_[index(chunk)] : none;
}

void UseCalendar::nearest(const std::function<bool(ChunkId, const NextUse&)>& body) const {
  for (const auto& [at, chunk] : order_) {
    if (!body(chunk, entries_[index(chunk)].use)) return;
  }
}

void UseCalendar::furthest(PlaceId at,
                           const std::function<bool(ChunkId, const NextUse&)>& body) const {
  if (index(at) >= at_.size()) return;
  for (const auto& [time, chunk] : at_[index(at)] | std::views::reverse) {
    if (!body(chunk, entries_[index(chunk)].use)) return;
  }
}

}  // namespace vma::inline v1
