// How many gates a move of many chunks needs, how long they stop the application, and how the time
// of the move compares with the application's backlog, behind which each gate waits. Moves between
// two GPUs, or between a GPU and host memory if there is only one.

#include "bench/live/cases.hpp"
#include "bench/harness/machine.hpp"

#include <algorithm>
#include <vector>

namespace vma {
namespace {

/// A model of 2.5 GiB in segments of a caching allocator.
constexpr std::uint64_t segment_bytes = 48 * mebibyte;
constexpr std::uint64_t segments = 53;
/// Launches that the application has enqueued ahead.
constexpr std::uint64_t launches_ahead = 16;

struct BatchCase {
  std::uint64_t bytes = 0;
  std::chrono::milliseconds backlog{0};
  std::chrono::microseconds max_stall{0};
};

Place other_place(Runtime& runtime) {
  const std::vector<Place> gpus = live_gpus(1);
  return gpus.size() > 1 ? gpus[1] : host_routes(runtime).front().second;
}

Sample in_batches(const BatchCase& batch) {
  // Fresh, so that its counters start here.
  Runtime& runtime = live_runtime({}, true);
  const Place home = live_gpus(1).front();
  const Place other = other_place(runtime);
  const std::uint64_t chunk_bytes =
      std::max(2 * mebibyte, batch.bytes / segments / mebibyte * mebibyte);
  MovedRange range(runtime, home, batch.bytes, chunk_bytes);
  range.reserve(other);
  WriterSpec spec;
  spec.gpus = {home};
  spec.kernel = std::chrono::nanoseconds(batch.backlog) / launches_ahead;
  spec.backlog = launches_ahead;
  spec.places = range.places(DirtyTiles{});
  Writers writers(runtime, spec);
  MigrateOptions options;  // Chunks at the host move stopped.
  options.max_stall = batch.max_stall;
  move_to_and_fro(range, home, other, options, 2, 0);  // The forecast learns what switches cost.

  MoveTally tally;
  std::uint64_t stops = 0, late = 0;
  std::chrono::nanoseconds longest(0);
  const Stopwatch watch;
  while (tally.tried() < 2 || to_us(watch.elapsed()) < case_seconds() * 1e6) {
    const Place to = range.place() == home ? other : home;
    const Migration migration = range.start(to, options);
    if (!range.finish(migration, to, tally)) continue;
    const MigrationReport report = migration.report();
    stops += report.stall.count;
    late += report.stall.max > batch.max_stall * 6 / 5 ? 1 : 0;
    longest = std::max(longest, report.stall.max);
  }
  range.check(writers.stop());

  Sample sample;
  tally.add_to(sample);
  sample.counters["gates_per_move"] =
      static_cast<double>(stops) / static_cast<double>(std::max(1, tally.moves()));
  sample.counters["stall_longest_us"] = to_us(longest);
  sample.counters["moves_over_max_stall"] = static_cast<double>(late);
  sample.counters["backlogs_per_move"] =
      to_us(sample.wall) / to_us(std::chrono::nanoseconds(batch.backlog));
  return sample;
}

}  // namespace

void register_batch_cases() {
  const std::uint64_t bytes = sizes_up_to_max({segments * segment_bytes}).front();
  for (const auto backlog : {std::chrono::milliseconds(8), std::chrono::milliseconds(128)}) {
    for (const int max_stall_us : {1, 2000, 8000}) {
      const BatchCase batch{bytes, backlog, std::chrono::microseconds(max_stall_us)};
      register_samples(
          "live/batch/" + size_label(bytes) + "/backlog_" + std::to_string(backlog.count()) +
              "ms/max_stall_" + std::to_string(max_stall_us) + "us",
          [batch] { return in_batches(batch); }, 1);
    }
  }
}

}  // namespace vma
