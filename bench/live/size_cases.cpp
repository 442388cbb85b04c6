// Whether the stall depends on the size of a move: sizes from one chunk to many, with the same
// number of chunks moved live, with and without a stall budget, under a gate that stays closed
// during the copy, and under one hold.

#include "bench/live/cases.hpp"

#include <algorithm>
#include <vector>

namespace vma {
namespace {

Sample by_size(MoveMode mode, std::chrono::milliseconds stall_budget, std::uint64_t bytes) {
  // Fresh, so that its counters start here.
  Runtime& runtime = live_runtime({stall_budget, {}, mode == MoveMode::held}, true);
  const std::vector<Place> gpus = live_gpus(2);
  const MigrateOptions options = options_of(mode);
  const auto chunks = static_cast<int>((bytes + chunk_bytes_most - 1) / chunk_bytes_most);
  const int chunks_wanted = static_cast<int>(setting("VMART_BENCH_MOVES", 1024));
  const int moves = std::max(2, chunks_wanted / chunks);
  MovedRange range(runtime, gpus[0], bytes);
  range.reserve(gpus[1]);
  Writers writers(runtime, few_writes(range, 4, std::chrono::microseconds(5)));
  {
    MovedRange warming(runtime, gpus[0], sizes_up_to_max({64 * mebibyte}).front());
    move_to_and_fro(warming, gpus[0], gpus[1], options, 2, 0);
  }
  const MoveTally tally =
      move_to_and_fro(range, gpus[0], gpus[1], options, moves, 3 * case_seconds());
  range.check(writers.stop());

  Sample sample;
  tally.add_to(sample);
  if (mode == MoveMode::held) return sample;  // One stop per move, which the tally contains.
  add_stops(sample, runtime.stats());
  return sample;
}

}  // namespace

void register_size_cases() {
  const auto sizes =
      sizes_up_to_max({64 * mebibyte, 256 * mebibyte, gibibyte, 4 * gibibyte, 16 * gibibyte});
  const auto add = [](const std::string& label, MoveMode mode,
                      std::chrono::milliseconds stall_budget, std::uint64_t bytes) {
    register_samples(
        "live/size/" + label + "/" + size_label(bytes),
        [=] { return by_size(mode, stall_budget, bytes); }, 1);
  };
  for (const MoveMode mode : {MoveMode::live, MoveMode::stopped, MoveMode::held}) {
    for (const std::uint64_t bytes : sizes) {
      add(mode_label(mode), mode, std::chrono::milliseconds(0), bytes);
    }
  }
  // The runtime's default, with which the next chunk is not copied during a stop.
  constexpr std::chrono::milliseconds default_budget(60);
  for (const std::uint64_t bytes : sizes_up_to_max({256 * mebibyte, 16 * gibibyte})) {
    add("live_budget", MoveMode::live, default_budget, bytes);
  }
}

}  // namespace vma
