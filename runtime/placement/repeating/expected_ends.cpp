#include "placement/repeating/expected_ends.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <utility>

namespace vma::inline v1 {

/// Where it is, or belongs.
std::vector<ExpectedEnds::Listed>::iterator ExpectedEnds::find(PlaceId device, Time at,
                                                               LiveAllocations::Number allocation) {
  return std::ranges::partition_point(by_time_[index(device)], [&](const Listed& listed) {
    return std::pair(listed.end.at, listed.allocation) > std::pair(at, allocation);
  });
}

void ExpectedEnds::put(LiveAllocations::Number allocation, PlaceId device, const End& end) {
  drop(allocation);
  if (allocation >= places_.size()) places_.resize(allocation + 1);
  if (index(device) >= by_time_.size()) by_time_.resize(index(device) + 1);
  by_time_[index(device)].insert(find(device, end.at, allocation), {end, allocation});
  places_[allocation] = {device, end.at, true};
}

void ExpectedEnds::drop(LiveAllocations::Number allocation) {
  if (allocation >= places_.size() || !places_[allocation].listed) return;
  const Place place = std::exchange(places_[allocation], {});
  std::vector<Listed>& ends = by_time_[index(place.device)];
  const auto found = find(place.device, place.at, allocation);
  VMART_CHECK(found != ends.end() && found->allocation == allocation,
              "an end is listed where it was put");
  ends.erase(found);
}

}  // namespace vma::inline v1
