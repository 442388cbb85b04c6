#include "telemetry/claim_limit.hpp"

#include "base/units.hpp"

#include <algorithm>

namespace vma {

ClaimLimit::ClaimLimit(const MachineCosts& costs)
    : credit_s_(costs.gpus(), in_seconds(ahead)),
      kept_(costs.gpus(), 1),
      claimed_(costs.gpus() * costs.places()) {}

std::span<const double> ClaimLimit::fit(std::span<const UseClaim> claims, const MachineCosts& costs,
                                        TimePoint now) {
  const double passed = in_seconds(std::max(now - last_, TimePoint(0)));
  last_ = std::max(last_, now);
  std::ranges::fill(claimed_, Seconds{});
  for (const UseClaim& claim : claims) {
    const double rate = costs.access_rate(claim.device, claim.at);
    if (rate <= 0) continue;  // It is not known how it got there.
    Seconds& claimed = claimed_[index(claim.device) * costs.places() + index(claim.at)];
    claimed.known += claim.known_bytes / rate;
    claimed.guessed += (claim.guessed_read + claim.guessed_written) / rate;
  }
  for (std::size_t gpu = 0; gpu < kept_.size(); ++gpu) {
    credit_s_[gpu] = std::min(credit_s_[gpu] + passed, in_seconds(ahead));
    kept_[gpu] =
        fit_one(std::span(claimed_).subspan(gpu * costs.places(), costs.places()), credit_s_[gpu]);
  }
  return kept_;
}

/// One part for all places, so that what a GPU uses more than other memory stays that.
double ClaimLimit::fit_one(std::span<const Seconds> places, double& credit) const noexcept {
  double kept = 1, used = 0;
  for (const Seconds& place : places) {
    if (place.guessed <= 0) continue;
    kept = std::min(kept, std::max(credit - place.known, 0.0) / place.guessed);
  }
  for (const Seconds& place : places) used = std::max(used, place.known + kept * place.guessed);
  credit = std::max(credit - used, 0.0);
  return kept;
}

}  // namespace vma
