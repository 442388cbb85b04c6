// Measures the gap between two kernels on a GPU: the same reads in one launch and in many.
#include "calibration/calibrator.hpp"

#include "costs/cost_estimates.hpp"

#include <vma/error.hpp>

#include <algorithm>

namespace vma {
namespace {

constexpr int row_tries = 4;  // The first one is a warm-up.
constexpr int launches = 16;  // Back to back, so that short gaps add up.

}  // namespace

/// If `waits`, waits for each read before launching the next.
Time Calibrator::reads_time(Location device, bool waits) {
  const Stream stream = streams_.at(device);
  const TimePoint start = clock_.now();
  for (int launch = 0; launch < launches; ++launch) {
    launch_read(device, device, 1);
    if (waits) runtime_.synchronize(stream);
  }
  if (!waits) runtime_.synchronize(stream);
  return clock_.now() - start;
}

void Calibrator::measure_launches(Location device) {
  Time once = Time::max(), chained = Time::max(), waited = Time::max();
  for (int attempt = 0; attempt < row_tries; ++attempt) {
    once = std::min(once, read_time(device, device, launches));
    chained = std::min(chained, reads_time(device, false));
    waited = std::min(waited, reads_time(device, true));
  }
  if (chained <= once || waited < chained)
    throw Error(ErrorKind::unsupported, "vma::calibrate", "launches take no time here");
  gaps_.kernel.at(index(place_of(topology_, device))) = (chained - once) / (launches - 1);
  gaps_.round.at(index(place_of(topology_, device))) = (waited - once) / (launches - 1);
}

void Calibrator::measure_launches() {
  for (const DeviceId device : topology_.devices()) {
    const Location at = gpu(index(device));
    attempt("gaps between kernels of " + to_string(at), [&] { measure_launches(at); });
  }
}

}  // namespace vma
