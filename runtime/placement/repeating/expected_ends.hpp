#pragma once

#include "placement/weighing/live_allocations.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <ranges>
#include <vector>

namespace vma::inline v1 {

/// When live allocations are expected to end, by the GPU that requested them. Those that end within
/// a time are found without a look at the others: a policy asks at each request. Memory near the
/// end of its life comes and goes most often, so it is where a sorted array changes cheaply.
class ExpectedEnds {
 public:
  struct End {
    Time at{0}, took{0};     ///< `took`: the life of the one that this is expected to be like.
    double bytes = 0;        ///< That become free near the GPU.
    std::uint64_t like = 0;  ///< The number of that request.
  };

  /// Replaces what was expected of the allocation.
  void put(LiveAllocations::Number allocation, PlaceId device, const End& end);
  /// If anything is expected of it.
  void drop(LiveAllocations::Number allocation);
  /// Calls `body` for those of a GPU that end before `until`, the next one first.
  template <typename Body>  // body(const End&)
  void for_each(PlaceId device, Time until, Body&& body) const {
    if (index(device) >= by_time_.size()) return;
    for (const Listed& listed : by_time_[index(device)] | std::views::reverse) {
      if (listed.end.at >= until) return;
      body(listed.end);
    }
  }

 private:
  struct Listed {
    End end;
    LiveAllocations::Number allocation = LiveAllocations::none;
  };
  /// Where the end of an allocation is listed.
  struct Place {
    PlaceId device{};
    Time at{0};
    bool listed = false;
  };
  std::vector<Listed>::iterator find(PlaceId device, Time at, LiveAllocations::Number allocation);

  std::vector<std::vector<Listed>> by_time_;  // By GPU; the furthest first.
  std::vector<Place> places_;                 // By allocation.
};

}  // namespace vma::inline v1
