// Measures the combined rate of a GPU's links in both directions: all GPUs read each other in a
// ring.
#include "calibration/calibrator.hpp"

#include "base/units.hpp"
#include "costs/cost_estimates.hpp"

#include <vma/error.hpp>

#include <algorithm>

namespace vma {
namespace {

constexpr int tries = 4;                                      // The first one is a warm-up.
constexpr std::uint64_t passes_least = 4, passes_most = 256;  // Of the shorter of two rings.
constexpr int launches_fit = 8;  // How often the launches of all GPUs fit into that ring's time.
constexpr std::uint64_t longer = 5;  // How many times as many passes the longer ring has.

}  // namespace

/// Each GPU reads the next one's memory `count` times; the last GPU reads the first one's.
Calibrator::RingTimes Calibrator::ring_times(std::uint64_t count) {
  const std::vector<DeviceId>& devices = topology_.devices();
  RingTimes times;
  const TimePoint start = clock_.now();
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceId next = devices[(i + 1) % devices.size()];
    launch_read(gpu(index(devices[i])), gpu(index(next)), count);
  }
  times.launched = clock_.now() - start;
  for (const DeviceId device : devices) runtime_.synchronize(streams_.at(gpu(index(device))));
  times.ended = clock_.now() - start;
  return times;
}

/// Both rings start with staggered launches and end with one GPU finishing last. During the
/// additional time of the longer one, all GPUs read.
double Calibrator::both_ways_rate() {
  Time launched = Time::max(), pass = Time::max();
  for (int attempt = 0; attempt < tries; ++attempt) {
    const RingTimes times = ring_times(passes_least);
    launched = std::min(launched, times.launched);
    pass = std::min(pass, times.ended / static_cast<Time::rep>(passes_least));
  }
  const auto fitting =
      static_cast<std::uint64_t>(launches_fit * launched / std::max(pass, Time(1)));
  if (fitting > passes_most) {
    throw Error(ErrorKind::unsupported, "vma::calibrate", "launches take longer than the reads");
  }
  const std::uint64_t count = std::max(passes_least, fitting);
  Time few = Time::max(), many = Time::max();
  for (int attempt = 0; attempt < tries; ++attempt) {
    few = std::min(few, ring_times(count).ended);
    many = std::min(many, ring_times(longer * count).ended);
  }
  if (many <= few) {
    throw Error(ErrorKind::driver_failure, "vma::calibrate", "more passes did not take longer");
  }
  const auto bytes = static_cast<double>((longer - 1) * count * read_bytes_);
  const double seconds = in_seconds(many - few);
  return 2 * bytes / seconds;  // As many bytes come in as go out.
}

void Calibrator::measure_peers() {
  const std::vector<std::vector<LinkKind>>& kinds = peers_.kinds;
  for (std::size_t from = 0; from < kinds.size(); ++from) {
    if (kinds[from][(from + 1) % kinds.size()] != LinkKind::nvlink) return;
  }
  attempt("reads in a ring of all GPUs",
          [&] { peers_.both_ways.assign(kinds.size(), both_ways_rate()); });
}

}  // namespace vma
