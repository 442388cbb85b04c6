#pragma once

#include "placement/repeating/next_use.hpp"

#include <cstdint>
#include <ranges>
#include <set>
#include <utility>
#include <vector>

namespace vma::inline v1 {

/// The predicted next uses of chunks, by time; and by the place where the chunks lie.
class UseCalendar {
 public:
  struct Entry {
    NextUse use;
    Time asked{0};  ///< When it was predicted.
    PlaceId at{};   ///< Where the chunk lies.
    bool known = false;
  };

  void put(ChunkId chunk, const NextUse& use, Time now, PlaceId at);
  void drop(ChunkId chunk);
  const Entry& operator[](ChunkId chunk) const;
  bool has(ChunkId chunk) const { return (*this)[chunk].known; }

  /// Calls `body`, the nearest first, until it returns false. It must not change the calendar.
  template <typename Body>  // bool body(ChunkId, const NextUse&)
  void nearest(Body&& body) const {
    for (const auto& [time, chunk] : order_)
      if (!body(chunk, entries_[index(chunk)].use)) return;
  }
  /// The same for those at one place, the furthest first.
  template <typename Body>  // bool body(ChunkId, const NextUse&)
  void furthest(PlaceId at, Body&& body) const {
    if (index(at) >= at_.size()) return;
    for (const auto& [time, chunk] : at_[index(at)] | std::views::reverse)
      if (!body(chunk, entries_[index(chunk)].use)) return;
  }

 private:
  using Order = std::set<std::pair<Time, ChunkId>>;
  std::vector<Entry> entries_;  // By chunk.
  Order order_;
  std::vector<Order> at_;  // By place.
};

}  // namespace vma::inline v1
