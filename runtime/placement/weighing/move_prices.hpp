#pragma once

#include "placement/weighing/chunk_worth.hpp"

#include <vma/snapshot.hpp>

#include <cstdint>
#include <vector>

namespace vma::inline v1 {

/// What moves cost, computed once for the chunks of a size. A policy that weighs every place for
/// every chunk asks for the same few prices thousands of times a tick.
class MovePrices {
 public:
  explicit MovePrices(double stall_weight) : stall_weight_(stall_weight) {}

  /// A call of the policy begins: the machine's costs may have changed since the last one.
  void begin(const MachineCosts& costs) {
    places_ = costs.places();
    prices_.assign(places_ * places_, {});
  }
  /// As `move_seconds`. Requires: `begin` was called with these costs.
  double seconds(const MachineCosts& costs, PlaceId from, PlaceId to, std::uint64_t bytes) {
    Price& price = prices_[index(from) * places_ + index(to)];
    if (price.bytes != bytes) price = {bytes, move_seconds(costs, from, to, bytes, stall_weight_)};
    return price.seconds;
  }

 private:
  struct Price {
    std::uint64_t bytes = 0;  // No chunk has none.
    double seconds = 0;
  };
  const double stall_weight_;
  std::size_t places_ = 0;
  std::vector<Price> prices_;  // By route: that of the last size.
};

}  // namespace vma::inline v1
