// Parks and resumes memory, compared with raw copies of the same number of bytes over the host link
// in both directions, in the same process. The memory is granted to one GPU, and its host memory is
// allocated in advance.

#include "bench/harness/raw_copies.hpp"
#include "bench/placement/cases.hpp"

#include <stdexcept>
#include <vector>

namespace vma {
namespace {

double gb_s(std::uint64_t bytes, std::chrono::nanoseconds time) {
  return static_cast<double>(bytes) / static_cast<double>(time.count());
}

std::chrono::nanoseconds checked(const ParkReport& report, std::uint64_t bytes) {
  if (report.bytes_moved != bytes || !report.stayed.empty())
    throw std::runtime_error("not all bytes went: " + (report.stayed.empty()
                                                           ? std::string("none stayed")
                                                           : report.stayed.front().reason));
  return report.wall;
}

Sample park(std::uint64_t bytes) {
  RuntimeOptions options;
  options.devices = {0};
  options.host_cache_bytes = bytes + gibibyte;
  Runtime runtime(options);
  const double raw_out = raw_copy_gb_s(runtime, gpu(0), {host(0)}, bytes);
  const double raw_in = raw_copy_gb_s(runtime, host(0), {gpu(0)}, bytes);
  AllocOptions tagged;
  tagged.tag = "parked";
  void* data = runtime.alloc(bytes, gpu(0), tagged);
  std::vector<std::chrono::nanoseconds> out, in;
  constexpr int rounds = 5;
  for (int round = 0; round <= rounds; ++round) {
    const auto parked = checked(runtime.park("parked"), bytes);
    const auto resumed = checked(runtime.resume("parked"), bytes);
    if (round == 0) continue;  // The first round allocates the host memory.
    out.push_back(parked);
    in.push_back(resumed);
  }
  runtime.free(data);
  Sample sample;
  sample.wall = median_of(out) + median_of(in);
  sample.counters["park_gb_s"] = gb_s(bytes, median_of(out));
  sample.counters["resume_gb_s"] = gb_s(bytes, median_of(in));
  sample.counters["raw_out_gb_s"] = raw_out;
  sample.counters["raw_in_gb_s"] = raw_in;
  sample.counters["park_of_raw_share"] = sample.counters["park_gb_s"] / raw_out;
  sample.counters["resume_of_raw_share"] = sample.counters["resume_gb_s"] / raw_in;
  return sample;
}

}  // namespace

void register_park_cases() {
  const std::uint64_t bytes = bytes_max(8 * mebibyte);
  register_samples(
      "placement/park/" + size_label(bytes), [bytes] { return park(bytes); }, 1);
}

}  // namespace vma
