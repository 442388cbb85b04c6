// The best launch shapes for the kernels of live copies: more blocks copy faster but slow the
// application's own kernels down more; smaller tiles mean fewer bytes to copy again but cost more
// to check.

#include "bench/live/cases.hpp"
#include "bench/live/rate_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t granule_bytes = 2 * mebibyte;

Sample cut(const LiveTuning& tuning, std::uint64_t bytes) {
  Runtime& runtime = live_runtime({std::chrono::microseconds(0), tuning});
  const std::vector<Place> gpus = live_gpus(2);
  MigrateOptions options = options_of(MoveMode::live);
  options.copy_share_percent = 100;  // All blocks of the tuning.
  MovedRange range(runtime, gpus[0], bytes);
  range.reserve(gpus[1]);
  Writers writers(runtime, few_writes(range, 2, std::chrono::microseconds(20)));
  Writers application(runtime, sweeps(gpus[0], bytes));
  move_to_and_fro(range, gpus[0], gpus[1], options, 2, 0);

  RateLog log(application);
  const auto rest = [&log] {
    const std::size_t begin = log.last();
    log.watch(std::chrono::nanoseconds(static_cast<std::int64_t>(case_seconds() * 1e9 / 6)));
    return log.per_second(begin, log.last());
  };
  const double before = rest();
  MoveTally tally, back;
  double launches = 0, seconds = 0;
  const Stopwatch watch;
  while (tally.tried() < 1 || to_us(watch.elapsed()) < case_seconds() * 1e6 / 2) {
    if (range.place() != gpus[0]) {
      range.move(gpus[0], options, back);
      continue;
    }
    log.look();
    const std::size_t begin = log.last();
    // In this direction, the kernels run on the application's GPU.
    range.move(gpus[1], options, tally);
    log.look();
    const double took = (log.at_ms(log.last()) - log.at_ms(begin)) / 1e3;
    launches += log.per_second(begin, log.last()) * took;
    seconds += took;
  }
  const double after = rest();
  application.stop();
  range.check(writers.stop());

  Sample sample;
  tally.add_to(sample);
  sample.counters["lost_share"] = share_lost(before, seconds > 0 ? launches / seconds : 0, after);
  return sample;
}

}  // namespace

void register_kernel_cases() {
  const std::uint64_t bytes = sizes_up_to_max({4 * gibibyte}).front();
  const auto add = [bytes](unsigned tile_kib, unsigned copy_blocks, unsigned settle_blocks) {
    LiveTuning tuning;
    tuning.copy_blocks = copy_blocks;
    tuning.settle_blocks_per_multiprocessor = settle_blocks;
    tuning.tiles_per_granule = granule_bytes / (tile_kib * 1024);
    register_samples(
        fmt::format("live/kernels/tile{}KiB/copy{}/settle{}/{}", tile_kib, copy_blocks,
                    settle_blocks, size_label(bytes)),
        [tuning, bytes] { return cut(tuning, bytes); }, 1);
  };
  // A block has as many threads as a tile needs: 1024 for 256 KiB.
  for (const unsigned tile_kib : {64u, 256u}) {
    const unsigned small = 256 / tile_kib;
    for (const unsigned blocks : {8u, 16u, 24u, 32u, 64u, 132u}) add(tile_kib, small * blocks, 4);
    for (const unsigned blocks : {1u, 2u, 8u, 16u}) add(tile_kib, small * 16, blocks);
  }
}

}  // namespace vma
