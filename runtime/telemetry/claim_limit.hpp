#pragma once

#include "base/clock.hpp"

#include <vma/snapshot.hpp>

#include <chrono>
#include <span>
#include <vector>

namespace vma {

/// What a GPU has used at a place, as programs report it.
struct UseClaim {
  PlaceId device{}, at{};
  double known_bytes = 0, guessed_read = 0, guessed_written = 0;
};

/// Keeps guessed uses within what each GPU can have accessed in the time that passed: at each place
/// as much as its path there carries, at several places at once. What is known stays as it is.
///
/// Work is reported when it is enqueued, and may run until a second later. So time for which a GPU
/// has claimed less counts later, up to `ahead`.
class ClaimLimit {
 public:
  static constexpr std::chrono::seconds ahead{1};

  explicit ClaimLimit(const MachineCosts& costs);

  /// The part of its guessed bytes that each GPU keeps, by `PlaceId`. Valid until the next call.
  std::span<const double> fit(std::span<const UseClaim> claims, const MachineCosts& costs,
                              TimePoint now);

 private:
  struct Seconds {
    double known = 0, guessed = 0;
  };
  double fit_one(std::span<const Seconds> places, double& credit) const noexcept;

  TimePoint last_{0};
  std::vector<double> credit_s_;  // By GPU: the time for which it may claim.
  std::vector<double> kept_;      // By GPU.
  std::vector<Seconds> claimed_;  // By GPU and place, in one call.
};

}  // namespace vma
