// Three ways to move one chunk, by how much of it the application writes to: what a second pass
// saves when few bytes change, and what it costs when many do.

#include "bench/live/cases.hpp"

#include <vector>

namespace vma {
namespace {

Sample by_share(MoveMode mode, int percent, std::uint64_t bytes) {
  Runtime& runtime = live_runtime({{}, {}, mode == MoveMode::held});
  const std::vector<Place> gpus = live_gpus(2);
  const MigrateOptions options = options_of(mode);
  MovedRange range(runtime, gpus[0], bytes);
  range.reserve(gpus[1]);
  WriterSpec spec = few_writes(range, 4, std::chrono::microseconds(5));
  spec.places = range.places(DirtyTiles::share_of(percent / 100.0, bytes));
  Writers writers(runtime, spec);
  const int moves = static_cast<int>(setting("VMART_BENCH_MOVES", 400));
  move_to_and_fro(range, gpus[0], gpus[1], options, 4, case_seconds());
  const MoveTally tally = move_to_and_fro(range, gpus[0], gpus[1], options, moves, case_seconds());
  range.check(writers.stop());
  Sample sample;
  tally.add_to(sample);
  return sample;
}

}  // namespace

void register_mode_cases() {
  for (const std::uint64_t bytes :
       sizes_up_to_max({16 * mebibyte, 64 * mebibyte, 256 * mebibyte})) {
    for (const MoveMode mode : {MoveMode::live, MoveMode::stopped, MoveMode::held}) {
      for (const int percent : {0, 1, 10, 50, 100}) {
        if (bytes < 256 * mebibyte && bytes > 4 * mebibyte && percent != 1) continue;
        register_samples(
            "live/modes/" + mode_label(mode) + "/dirty" + std::to_string(percent) + "/" +
                size_label(bytes),
            [mode, percent, bytes] { return by_share(mode, percent, bytes); }, 1);
      }
    }
  }
}

}  // namespace vma
