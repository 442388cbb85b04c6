// Evacuates a GPU to all others: three allocations, one for each of three GPUs, all at once or one
// after the other, stopped under holds or live, compared with the maximum rate of its links.

#include "bench/live/cases.hpp"
#include "bench/harness/raw_copies.hpp"
#include "runtime/runtime_parts.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t targets_max = 3;

struct DrainCase {
  MoveMode mode = MoveMode::held;
  bool at_once = true;
};

using Ranges = std::vector<std::unique_ptr<MovedRange>>;

/// Moves range i to the i-th place. Returns the total duration by the machine's clock.
std::chrono::nanoseconds move_all(Runtime& runtime, Ranges& ranges,
                                  const std::vector<Place>& places, const DrainCase& chosen,
                                  MoveTally& tally) {
  Clock& clock = parts_of(runtime).driver->clock();
  const MigrateOptions options = options_of(chosen.mode);
  const TimePoint start = clock.now();
  std::vector<Migration> under_way;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (chosen.at_once) {
      under_way.push_back(ranges[i]->start(places[i], options));
    } else {
      ranges[i]->move(places[i], options, tally);
    }
  }
  for (std::size_t i = 0; i < under_way.size(); ++i) {
    ranges[i]->finish(under_way[i], places[i], tally);
  }
  return clock.now() - start;
}

Sample drain(const DrainCase& chosen, std::uint64_t bytes) {
  constexpr std::uint64_t granule_bytes = 2 * mebibyte;
  Runtime& runtime = live_runtime({{}, {}, chosen.mode == MoveMode::held});
  const std::vector<Place> gpus = live_gpus(2);
  const std::vector<Place> targets(gpus.begin() + 1,
                                   gpus.begin() + 1 + std::min(targets_max, gpus.size() - 1));
  const double egress_gb_s = raw_copy_gb_s(runtime, gpus[0], targets, bytes);
  const std::uint64_t part_bytes =
      std::max(bytes / targets.size() / granule_bytes, std::uint64_t{1}) * granule_bytes;
  Ranges ranges;
  for (const Place& to : targets) {
    ranges.push_back(std::make_unique<MovedRange>(runtime, gpus[0], part_bytes));
    ranges.back()->reserve(to);
  }
  Writers writers(runtime, few_writes(*ranges.front(), 2, std::chrono::microseconds(20)));
  const std::vector<Place> home(targets.size(), gpus[0]);

  MoveTally warming, tally;
  std::vector<std::chrono::nanoseconds> took;
  move_all(runtime, ranges, targets, chosen, warming);
  const Stopwatch watch;
  while (took.size() < 2 || to_us(watch.elapsed()) < case_seconds() * 1e6) {
    move_all(runtime, ranges, home, chosen, warming);
    took.push_back(move_all(runtime, ranges, targets, chosen, tally));
  }
  ranges.front()->check(writers.stop());
  for (std::size_t i = 1; i < ranges.size(); ++i) ranges[i]->check(0);

  Sample sample;
  tally.add_to(sample);
  const auto all = std::accumulate(took.begin(), took.end(), std::chrono::nanoseconds(0));
  sample.wall = median_of(took);
  sample.counters["targets"] = static_cast<double>(targets.size());
  sample.counters["egress_gb_s"] = egress_gb_s;
  sample.counters["rate_gb_s"] =
      static_cast<double>(tally.bytes_moved()) / static_cast<double>(all.count());
  return sample;
}

}  // namespace

void register_drain_cases() {
  const std::uint64_t bytes = 2 * sizes_up_to_max({16 * gibibyte}).front();
  for (const DrainCase& chosen :
       {DrainCase{MoveMode::held, true}, DrainCase{MoveMode::held, false},
        DrainCase{MoveMode::live, true}, DrainCase{MoveMode::live, false}}) {
    register_samples(
        "live/drain/" + mode_label(chosen.mode) + (chosen.at_once ? "/at_once/" : "/in_turn/") +
            size_label(bytes),
        [chosen, bytes] { return drain(chosen, bytes); }, 1);
  }
}

}  // namespace vma
