#include "placement/planning/stall_ahead.hpp"

#include "base/units.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace vma {
namespace {

/// A false prediction costs three quarters of the credit, and two that came true restore it.
constexpr double shrinks_to = 0.25, grows_to = 2;
/// So that a few moves can still show that predictions have become better.
constexpr double trust_least = 1.0 / 64;
constexpr std::size_t advances_max = 64;

}  // namespace

double StallAhead::credit(const PlannerLimits& limits) const {
  return limits.stall_share * in_seconds(limits.stall_ahead) * trust_;
}

bool StallAhead::pays(double gain, double stall, std::size_t gpus,
                      const PlannerLimits& limits) const {
  return limits.stall_share > 0 && limits.stall_ahead > Time::zero() &&
         advances_.size() < advances_max &&
         gain >= limits.ahead_gain * stall * static_cast<double>(gpus);
}

void StallAhead::open(std::span<const Stake> stakes, double stall, std::size_t gpus) {
  std::map<ChunkId, Placed> placed;
  for (const Stake& stake : stakes)
    placed.emplace(stake.chunk, Placed{last_ + 1, stake.from, stake.to, false});
  const auto [at, fresh] = advances_.try_emplace(last_ + 1);
  // Nothing below allocates.
  at->second.owed = stall * static_cast<double>(gpus);
  at->second.moves = placed.size();
  ++last_;
  for (const Stake& stake : stakes) drop(stake.chunk);  // Of an earlier advance.
  stakes_.merge(placed);
}

void StallAhead::take_back() noexcept {
  if (advances_.erase(last_) == 0) return;
  std::erase_if(stakes_, [this](const auto& stake) { return stake.second.advance == last_; });
}

/// The chunk no longer counts; what it has saved does.
void StallAhead::drop(ChunkId chunk) noexcept {
  const auto found = stakes_.find(chunk);
  if (found == stakes_.end()) return;
  const auto advance = advances_.find(found->second.advance);
  if (advance != advances_.end() && !found->second.arrived) --advance->second.moves;
  stakes_.erase(found);
}

void StallAhead::ended(ChunkId chunk, PlaceId to, bool moved, Time now,
                       const PlannerLimits& limits) noexcept {
  const auto found = stakes_.find(chunk);
  if (found == stakes_.end()) return;
  Placed& stake = found->second;
  const auto advance = advances_.find(stake.advance);
  if (advance == advances_.end()) return;
  if (stake.arrived || !moved) return drop(chunk);  // It leaves again, or never arrives.
  if (to != stake.to) return;                       // The first leg of its way.
  stake.arrived = true;
  --advance->second.moves;
  ++advance->second.arrived;
  advance->second.due = now + limits.ahead_within;
}

void StallAhead::forget(ChunkId chunk) noexcept {
  drop(chunk);
}

void StallAhead::used(const UseEvent& use, const MachineCosts& costs) noexcept {
  if (stakes_.empty()) return;
  const auto found = stakes_.find(use.chunk);
  if (found == stakes_.end() || !found->second.arrived) return;
  const auto advance = advances_.find(found->second.advance);
  const double saved = costs.access_seconds(use.device, found->second.from, use.bytes()) -
                       costs.access_seconds(use.device, found->second.to, use.bytes());
  // A GPU that reaches only one of both places says nothing about the stops.
  if (advance != advances_.end() && std::isfinite(saved)) advance->second.saved += saved;
}

std::vector<StallAhead::Outcome> StallAhead::judge(Time now, const PlannerLimits& limits) {
  std::vector<Outcome> outcomes;
  for (auto at = advances_.begin(); at != advances_.end();) {
    const auto& [number, advance] = *at;
    const bool paid = advance.saved >= advance.owed;
    const bool nothing_moved = advance.moves == 0 && advance.arrived == 0;
    if (advance.moves > 0 || (!paid && !nothing_moved && now < advance.due)) {
      ++at;
      continue;
    }
    if (!nothing_moved) {
      outcomes.push_back({paid, advance.saved, advance.owed, 0});
      trust_ = paid ? std::min(1.0, grows_to * trust_) : std::max(trust_least, shrinks_to * trust_);
      outcomes.back().credit = credit(limits);
    }
    std::erase_if(stakes_, [&](const auto& stake) { return stake.second.advance == number; });
    at = advances_.erase(at);
  }
  return outcomes;
}

bool StallAhead::under_way() const noexcept {
  return std::ranges::any_of(advances_,
                             [](const auto& advance) { return advance.second.moves > 0; });
}

}  // namespace vma
