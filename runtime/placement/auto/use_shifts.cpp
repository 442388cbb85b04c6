#include "placement/auto/use_shifts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vma::inline v1 {
namespace {

/// A shift that has lost more than this share of its peak may be about to end.
constexpr double peak_share = 0.75;
/// In standard deviations of the sum if each use were equally likely to lose as to save.
constexpr double deviations = 3;
constexpr std::size_t looks_max = 8;  // For a shift that has been forgotten, per use.

}  // namespace

void add_use(std::vector<UsedBytes>& users, const UseEvent& use) {
  const auto user = std::ranges::find(users, use.device, &UsedBytes::device);
  if (user == users.end()) {
    users.push_back({use.device, use.bytes()});
  } else {
    user->bytes += use.bytes();
  }
}

/// What the users waited beyond `margin` times what they would have waited at the best of their own
/// places. 0 if none of these can be reached by all.
double UseShifts::lost(const Shift& shift, const MachineCosts& costs) const {
  const auto seconds_at = [&](PlaceId at) {
    double seconds = 0;
    for (const UsedBytes& user : shift.users)
      seconds += costs.access_seconds(user.device, at, user.bytes);
    return seconds;
  };
  double best = std::numeric_limits<double>::infinity();
  for (const UsedBytes& user : shift.users) {
    if (user.device != shift.at) best = std::min(best, seconds_at(user.device));
  }
  return std::isfinite(best) ? seconds_at(shift.at) - margin_ * best : 0;
}

/// What the use can lose at the worst of the places in question.
double UseShifts::slowest(const Shift& shift, const UseEvent& use, const MachineCosts& costs) {
  double seconds = costs.access_seconds(use.device, shift.at, use.bytes());
  for (const UsedBytes& user : shift.users) {
    const double there = costs.access_seconds(use.device, user.device, use.bytes());
    if (std::isfinite(there)) seconds = std::max(seconds, there);
  }
  return seconds;
}

/// A shift is forgotten once the chunk was not used for as long as the shift may be.
bool UseShifts::make_room(Time now, Time least) {
  if (!free_.empty()) return true;
  if (shifts_.size() < shifts_max) {
    shifts_.emplace_back();
    free_.push_back(static_cast<std::uint32_t>(shifts_.size() - 1));
    return true;
  }
  for (std::size_t looks = 0; looks < looks_max && free_.empty(); ++looks) {
    looked_at_ = (looked_at_ + 1) % shifts_.size();
    // None is unused here.
    if (shifts_[looked_at_].last + memory * least < now) forget(shifts_[looked_at_].chunk);
  }
  return !free_.empty();
}

UseShifts::Shift* UseShifts::begin(const UseEvent& use, const Snapshot& snapshot) {
  if (index(use.chunk) >= numbers_.size()) numbers_.resize(snapshot.chunks().size(), none);
  const std::uint32_t number = free_.back();
  free_.pop_back();
  numbers_[index(use.chunk)] = number;
  Shift& shift = shifts_[number];
  shift.chunk = use.chunk;
  shift.at = snapshot.chunk(use.chunk).at;
  shift.begin = shift.first = shift.peak = snapshot.now();
  shift.users.clear();
  shift.lost = shift.lost_most = 0;
  shift.spread = 0;
  return &shift;
}

const UseShifts::Shift* UseShifts::note(const UseEvent& use, const Snapshot& snapshot, Time least) {
  const PlaceId at = snapshot.chunk(use.chunk).at;
  std::uint32_t number = number_of(use.chunk);
  if (number != none && shifts_[number].at != at) {  // It has moved since.
    forget(use.chunk);
    number = none;
  }
  if (number == none && (use.device == at || !make_room(snapshot.now(), least))) return nullptr;
  Shift& shift = number == none ? *begin(use, snapshot) : shifts_[number];
  shift.last = snapshot.now();
  add_use(shift.users, use);
  const double most = slowest(shift, use, snapshot.costs());
  shift.spread += most * most;
  shift.lost = lost(shift, snapshot.costs());
  if (shift.lost <= 0) {
    forget(use.chunk);
    return &shift;
  }
  if (shift.lost >= shift.lost_most) {
    shift.lost_most = shift.lost;
    shift.peak = shift.last;
  }
  if (shift.length() < memory * least) return nullptr;
  for (UsedBytes& each : shift.users) each.bytes /= 2;
  shift.lost /= 2;
  shift.lost_most /= 2;
  shift.spread /= 4;
  shift.begin += shift.length() / 2;
  return nullptr;
}

const UseShifts::Shift* UseShifts::lasting(ChunkId chunk, Time least) const {
  const std::uint32_t number = number_of(chunk);
  if (number == none) return nullptr;
  const Shift& shift = shifts_[number];
  const bool lasts = shift.length() >= least &&
                     shift.lost >= deviations * std::sqrt(shift.spread) &&
                     shift.lost >= peak_share * shift.lost_most;
  return lasts ? &shift : nullptr;
}

void UseShifts::forget(ChunkId chunk) {
  const std::uint32_t number = number_of(chunk);
  if (number == none) return;
  numbers_[index(chunk)] = none;
  free_.push_back(number);
}

}  // namespace vma::inline v1
