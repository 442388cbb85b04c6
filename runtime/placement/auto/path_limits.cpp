#include "placement/auto/path_limits.hpp"

#include "base/units.hpp"

#include <algorithm>
#include <cmath>

namespace vma::inline v1 {
namespace {

// Long uses are reported every 10 ms.
constexpr Time window_length = std::chrono::milliseconds(20);
constexpr double window_half_life = 50;  // In windows: a second.
// A peer that is not faster than the hosts by this factor is reached by the same path, as by PCIe.
constexpr double own_path_from = 2;

}  // namespace

PathLimits::Path PathLimits::path(PlaceId device, PlaceId at) const {
  if (device == at) return own;
  if (index(at) >= costs_->gpus()) return hosts;
  double fastest = 0;
  for (std::size_t i = costs_->gpus(); i < costs_->places(); ++i)
    fastest = std::max(fastest, costs_->access_rate(device, PlaceId{static_cast<std::uint8_t>(i)}));
  return costs_->access_rate(device, at) > own_path_from * fastest ? peers : hosts;
}

void PathLimits::end_windows(Time now) {
  if (now >= window_ * window_length && now < (window_ + 1) * window_length) return;
  const std::int64_t window = now / window_length;
  const double fade = std::exp2(-static_cast<double>(window - window_) / window_half_life);
  for (std::size_t i = 0; i < taken_.size(); ++i)
    if (taken_[i].now > 0) known_[i / paths] = true;
  for (std::vector<Average>* averages : {&taken_, &served_}) {
    for (Average& average : *averages) {
      const double load = average.now / in_seconds(window_length);
      average.seconds = (average.seconds + average.now) * fade;
      average.seconds_times_load = (average.seconds_times_load + average.now * load) * fade;
      average.load = average.seconds > 0 ? average.seconds_times_load / average.seconds : 0;
      average.now = 0;
    }
  }
  window_ = window;
}

void PathLimits::note(const UseEvent& use, PlaceId at, const Snapshot& snapshot) {
  if (limit_ <= 0 || !snapshot.costs().reaches(use.device, at)) return;
  costs_ = &snapshot.costs();
  if (known_.size() != costs_->gpus()) {
    taken_.resize(costs_->gpus() * paths);
    served_.resize(costs_->gpus());
    known_.resize(costs_->gpus());
  }
  end_windows(snapshot.now());
  const double seconds = costs_->access_seconds(use.device, at, use.bytes());
  const Path which = path(use.device, at);
  taken_[index(use.device) * paths + which].now += seconds;
  if (which == peers) served_[index(at)].now += seconds;
}

double PathLimits::load(PlaceId device, PlaceId at, double more) const {
  const double rate = costs_->access_rate(device, at);
  if (rate <= 0) return 1;
  const Path which = path(device, at);
  double load = taken_[index(device) * paths + which].load;
  if (which == peers) load = std::max(load, served_[index(at)].load);
  return load + more / rate;
}

double PathLimits::share(PlaceId device, PlaceId at, double more) const {
  if (limit_ <= 0 || index(device) >= known_.size() || !known_[index(device)]) return 1;
  return std::clamp(2 * load(device, at, more) / limit_ - 1, 0.0, 1.0);
}

}  // namespace vma::inline v1
