#pragma once

#include <vma/snapshot.hpp>

#include <cstdint>
#include <vector>

namespace vma::inline v1 {

/// How many more bytes a policy may wish to have copied from one place to another: a share of the
/// route's rate, refilled as time passes, accumulating up to `burst`. A chunk may go while anything
/// is left, so that one larger than the budget can go, and leaves a debt.
class RouteBudget {
 public:
  RouteBudget(double share, double burst_seconds) : share_(share), burst_seconds_(burst_seconds) {}

  void refill(const MachineCosts& costs, Time now);
  /// Requires: `refill` was called.
  bool left(PlaceId from, PlaceId to) const { return bytes_[cell(from, to)] > 0; }
  void take(PlaceId from, PlaceId to, std::uint64_t bytes) {
    bytes_[cell(from, to)] -= static_cast<double>(bytes);
  }

 private:
  std::size_t cell(PlaceId from, PlaceId to) const { return index(from) * places_ + index(to); }

  const double share_, burst_seconds_;
  std::size_t places_ = 0;
  Time refilled_{0};
  std::vector<double> bytes_;
};

}  // namespace vma::inline v1
