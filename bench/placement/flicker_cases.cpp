// Hot sets that flicker: those of two phases of the drift alternate every 50 ms, too fast for
// anything to be gained by moving. Measures what the program loses to a scheduler that moves
// memory, against one that decides the same and moves nothing (a dry run), in flicker_rounds of one
// stretch each, which goes first in turns. Both begin with the memory where the first of the two
// phases wants it.

#include "bench/placement/cases.hpp"
#include "bench/placement/drift_bed.hpp"
#include "runtime/runtime_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr std::chrono::milliseconds each(50);
constexpr int flicker_rounds = 3;

struct Stretch {
  double bytes_s = 0, moves_s = 0;
};

/// As long as two cases: policies' averages contain the last second.
Stretch flickering(const DriftLoad& load, bool dry_run) {
  RuntimeOptions options;
  options.policy = case_policy();
  options.dry_run = dry_run;
  DriftBed bed(load, options);
  const Clock& clock = parts_of(bed.runtime).driver->clock();
  bed.readers->set_ranges(shares_of(load, 0));
  bed.readers->rate(std::chrono::duration<double>(case_seconds() / 2));  // Until all is at rest.
  const std::uint64_t read = bed.readers->bytes();
  const std::uint64_t moves = bed.runtime.scheduler_stats().moves_done;
  const TimePoint begin = clock.now();
  const Stopwatch watch;
  for (std::size_t turn = 1; to_us(watch.elapsed()) < 2e6 * case_seconds(); ++turn) {
    bed.readers->set_ranges(shares_of(load, turn % 2));
    bed.readers->rate(each);
  }
  const double seconds = std::chrono::duration<double>(clock.now() - begin).count();
  Stretch stretch;
  stretch.bytes_s = static_cast<double>(bed.readers->bytes() - read) / seconds;
  stretch.moves_s = static_cast<double>(bed.runtime.scheduler_stats().moves_done - moves) / seconds;
  return stretch;
}

double middle(std::vector<double> values) {
  std::ranges::sort(values);
  return values.at(values.size() / 2);
}

Sample flicker(std::size_t gpus) {
  const DriftLoad load = drift_load(gpus, bytes_max());
  std::vector<double> with, without, lost, moves;
  Sample sample;
  const Stopwatch watch;
  for (int round = 0; round < flicker_rounds; ++round) {
    Stretch moving, dry;
    const bool dry_first = round % 2 == 1;
    if (dry_first) dry = flickering(load, true);
    moving = flickering(load, false);
    if (!dry_first) dry = flickering(load, true);
    with.push_back(moving.bytes_s);
    without.push_back(dry.bytes_s);
    lost.push_back(1 - moving.bytes_s / dry.bytes_s);
    moves.push_back(moving.moves_s);
  }
  sample.wall = watch.elapsed();
  const auto [least, most] = std::ranges::minmax(without);
  sample.counters["gb_s"] = 1e-9 * middle(with);
  sample.counters["dry_run_gb_s"] = 1e-9 * middle(without);
  sample.counters["lost_share"] = middle(lost);
  sample.counters["spread_share"] = (most - least) / middle(without);
  sample.counters["moves_per_s"] = *std::ranges::max_element(moves);
  return sample;
}

}  // namespace

void register_flicker_cases() {
  const std::size_t gpus = drift_gpus();
  if (gpus < 2) return;
  register_samples(
      "placement/flicker/gpus" + std::to_string(gpus), [gpus] { return flicker(gpus); }, 1);
}

}  // namespace vma
