#include "unit/lab/fidelity/recorded_header.hpp"

#include "base/units.hpp"
#include "unit/lab/replay/two_gpus.hpp"

#include <chrono>

namespace vma {

RecordingHeader recorded_header() {
  RecordingHeader header;
  header.machine = "two GPUs";
  header.places = {{gpu(2), 8 * GiB, 0, 0}, {gpu(5), 8 * GiB, 0, 0}, {host(0), 64 * GiB, 0, 0}};
  header.costs = MachineCosts(2, 3);
  for (const PlaceId from : {gpu_0, gpu_1, host_0}) {
    for (const PlaceId to : {gpu_0, gpu_1, host_0}) {
      const bool by_host = from == host_0 || to == host_0;
      const double rate = by_host ? 50e9 : from == to ? 4e12 : 400e9;
      if (from != host_0) header.costs.access_rate(from, to) = rate;
      header.costs.copy_rate(from, to) = rate;
      if (from == to) continue;
      header.costs.move_fixed(from, to) = std::chrono::microseconds(300);
      header.costs.move_per_byte(from, to) = 1e-13;
      header.costs.stall_fixed(from, to) = std::chrono::microseconds(200);
      header.costs.stall_per_byte(from, to) = 1e-13;
    }
  }
  header.gaps = {{Time(3'000), Time(3'000)}, {Time(20'000), Time(21'000)}};
  header.scheduler = RecordedScheduler();
  header.scheduler->policy = "cost_benefit";
  header.scheduler->half_life = std::chrono::milliseconds(20);
  return header;
}

}  // namespace vma
