#include <vma/snapshot.hpp>

#include <algorithm>
#include <limits>

namespace vma::inline v1 {

MachineCosts::MachineCosts(std::size_t gpus, std::size_t places) : gpus_(gpus), places_(places) {
  const std::size_t cells = places * places;
  access_.resize(cells);
  copy_.resize(cells);
  move_byte_.resize(cells);
  stall_byte_.resize(cells);
  latency_.resize(cells);
  fixed_.resize(cells);
  stall_.resize(cells);
  by_speed_.resize(gpus);
}

double MachineCosts::access_seconds(PlaceId device, PlaceId at, double bytes) const {
  if (bytes <= 0) return 0;
  const double rate = access_rate(device, at);
  return rate > 0 ? bytes / rate : std::numeric_limits<double>::infinity();
}

Time MachineCosts::move_time(PlaceId from, PlaceId to, std::uint64_t bytes) const {
  const double rate = copy_rate(from, to);
  if (rate <= 0) return Time::max();
  return move_fixed(from, to) +
         std::chrono::duration_cast<Time>(std::chrono::duration<double>(
             static_cast<double>(bytes) * (1 / rate + move_per_byte(from, to))));
}

Time MachineCosts::stall_time(PlaceId from, PlaceId to, std::uint64_t bytes) const {
  return stall_fixed(from, to) + std::chrono::duration_cast<Time>(std::chrono::duration<double>(
                                     static_cast<double>(bytes) * stall_per_byte(from, to)));
}

void MachineCosts::rank() {
  for (std::size_t gpu = 0; gpu < gpus_; ++gpu) {
    const PlaceId device{static_cast<std::uint8_t>(gpu)};
    std::vector<PlaceId>& ranked = by_speed_[gpu];
    ranked.clear();
    for (std::size_t at = 0; at < places_; ++at) {
      if (reaches(device, PlaceId{static_cast<std::uint8_t>(at)}))
        ranked.push_back(PlaceId{static_cast<std::uint8_t>(at)});
    }
    // Its own HBM comes first, whatever a calibration said; of equals the lowest number.
    std::ranges::stable_sort(ranked, [&](PlaceId left, PlaceId right) {
      if (left == device || right == device) return left == device && right != device;
      return access_rate(device, left) > access_rate(device, right);
    });
  }
}

}  // namespace vma::inline v1
