#include "placement/weighing/route_budget.hpp"

#include <algorithm>

namespace vma::inline v1 {

void RouteBudget::refill(const MachineCosts& costs, Time now) {
  const bool fresh = places_ != costs.places();
  if (!fresh && now <= refilled_) return;
  const double passed =
      fresh ? burst_seconds_ : std::chrono::duration<double>(now - refilled_).count();
  if (fresh) {
    bytes_.assign(costs.places() * costs.places(), 0);
    places_ = costs.places();
  }
  for (std::size_t from = 0; from < places_; ++from) {
    for (std::size_t to = 0; to < places_; ++to) {
      const double rate = share_ * costs.copy_rate(PlaceId{static_cast<std::uint8_t>(from)},
                                                   PlaceId{static_cast<std::uint8_t>(to)});
      double& bytes = bytes_[from * places_ + to];
      bytes = std::min(rate * burst_seconds_, bytes + rate * passed);
    }
  }
  refilled_ = now;
}

}  // namespace vma::inline v1
