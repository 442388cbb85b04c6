// A working set of 1.25 times a capped HBM on one GPU, a fifth of which is hot. Measures the bytes
// read per second once the scheduler has settled, compared with all of it in HBM, all of it at the
// host, and the best that the share of bytes and these two rates allow: the hot fifth in HBM, plus
// as much of the rest as fits. HBM used by the runtime and the reader does not count towards the
// cap.

#include "bench/placement/cases.hpp"
#include "bench/placement/readers.hpp"
#include "bench/placement/settling.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

namespace vma {
namespace {

// Multiples of the measured time: long enough for the first moves to begin, and short enough for
// three cases to fit into two minutes at three seconds per case.
constexpr double settling_least = 4, settling_most = 16;

struct WorkingSet {
  std::uint64_t capacity_bytes = 0, bytes = 0, chunk_bytes = 0;
  // The last fifth, which does not fit into HBM.
  std::uint64_t hot_begin() const { return bytes / 5 * 4; }

  /// Reads the hot fifth repeatedly, and in between parts of the rest, until all of it has been
  /// read. The parts are chosen in strides: those in HBM are adjacent, and every stretch of time
  /// should include its share of them.
  std::vector<ReadRange> ranges(double hot_share) const {
    constexpr std::uint64_t line = 256;
    const std::uint64_t hot_bytes = bytes - hot_begin();
    const auto part =
        static_cast<std::uint64_t>(static_cast<double>(hot_bytes) * (1 - hot_share) / hot_share) /
        line * line;
    const std::uint64_t parts = (hot_begin() + part - 1) / part;
    std::uint64_t stride = parts * 618 / 1000 + 1;
    while (std::gcd(stride, parts) != 1) ++stride;  // Coprime, so that each part is visited.
    std::vector<ReadRange> ranges;
    for (std::uint64_t turn = 0; turn < parts; ++turn) {
      const std::uint64_t at = turn * stride % parts * part;
      ranges.push_back({hot_begin(), hot_bytes});
      ranges.push_back({at, std::min(part, hot_begin() - at)});
    }
    return ranges;
  }
};

WorkingSet working_set() {
  WorkingSet set;
  set.capacity_bytes = bytes_max(64 * mebibyte);
  set.chunk_bytes = std::min(64 * mebibyte, set.capacity_bytes / 32);
  set.bytes = set.capacity_bytes / 4 * 5 / set.chunk_bytes * set.chunk_bytes;
  return set;
}

struct Figures {
  double rate = 0, hot_in_hbm = 0, settled_ms = 0;
  bool settled = false;
  SchedulerStats stats;
};

double hot_in_hbm(Runtime& runtime, const void* data, const WorkingSet& set) {
  std::uint64_t bytes = 0;
  for (const Extent& extent : runtime.where(data)) {
    const std::uint64_t begin = std::max<std::uint64_t>(extent.offset, set.hot_begin());
    const std::uint64_t end = std::min<std::uint64_t>(extent.offset + extent.bytes, set.bytes);
    if (extent.at == gpu(0) && begin < end) bytes += end - begin;
  }
  return static_cast<double>(bytes) / static_cast<double>(set.bytes - set.hot_begin());
}

/// Leaves room for four fifths of the set, in addition to the HBM that is already in use.
void cap(Runtime& runtime, const WorkingSet& set) {
  std::uint64_t held_bytes = 0;
  for (const RuntimeStats::PlaceStats& place : runtime.stats().places) {
    if (place.at != gpu(0)) continue;
    held_bytes = place.allocated_bytes + place.cached_bytes + place.own_bytes;
  }
  runtime.set_capacity(gpu(0), set.capacity_bytes + held_bytes);
}

/// Allocates the set at one place, or under the cap if none is given.
void* make_set(Runtime& runtime, const WorkingSet& set, std::optional<Place> at) {
  AllocOptions how;
  how.chunk_bytes = set.chunk_bytes;
  if (at) return runtime.alloc(set.bytes, *at, how);
  // Allocates the HBM that a reader needs before the cap is computed; the real reader finds it in
  // the cache.
  const Readers early(runtime, nullptr, {gpu(0)});
  cap(runtime, set);
  return runtime.alloc(set.bytes, how);
}

/// Measures with everything at one place or, if none is given, with the scheduler and the cap.
Figures measure(const WorkingSet& set, double hot_share, std::optional<Place> at) {
  RuntimeOptions options;
  options.devices = {0};
  if (!at) options.policy = case_policy();
  Runtime runtime(options);
  const std::chrono::duration<double> time(case_seconds() / 2);
  Figures figures;
  void* data = make_set(runtime, set, at);
  {
    Settling settling(runtime);
    Readers readers(runtime, data, {gpu(0)});
    readers.set_ranges({set.ranges(hot_share)});
    if (at) {
      readers.rate(time / 4);
    } else {
      figures.settled = settling.await(readers, time * settling_least, time * settling_most);
    }
    figures.settled_ms = settling.settled_ms();
    figures.rate = readers.rate(time);
    figures.hot_in_hbm = hot_in_hbm(runtime, data, set);
  }
  figures.stats = runtime.scheduler_stats();
  runtime.free(data);
  return figures;
}

Sample oversubscribed(double hot_share) {
  const WorkingSet set = working_set();
  const Stopwatch watch;
  const double hbm = measure(set, hot_share, gpu(0)).rate;
  const double host_rate = measure(set, hot_share, host(0)).rate;
  const Figures got = measure(set, hot_share, std::nullopt);
  const double fits = static_cast<double>(set.capacity_bytes) / static_cast<double>(set.bytes);
  const double rest_in_hbm = (fits - 0.2) / 0.8;
  const double best = 1 / ((hot_share + (1 - hot_share) * rest_in_hbm) / hbm +
                           (1 - hot_share) * (1 - rest_in_hbm) / host_rate);
  Sample sample;
  sample.wall = watch.elapsed();
  sample.counters["rate_gb_s"] = got.rate * 1e-9;
  sample.counters["all_hbm_gb_s"] = hbm * 1e-9;
  sample.counters["all_host_gb_s"] = host_rate * 1e-9;
  sample.counters["best_gb_s"] = best * 1e-9;
  sample.counters["of_best_share"] = got.rate / best;
  sample.counters["hot_in_hbm_share"] = got.hot_in_hbm;
  sample.counters["settled_ms"] = got.settled_ms;
  sample.counters["settled_count"] = got.settled ? 1 : 0;
  sample.counters["moves"] = static_cast<double>(got.stats.moves_done);
  sample.counters["moves_failed_count"] = static_cast<double>(got.stats.moves_failed);
  return sample;
}

}  // namespace

void register_oversubscribed_cases() {
  for (const int permille : {995, 950, 800})
    register_samples(
        "placement/oversubscribed/hot" + std::to_string(permille),
        [permille] { return oversubscribed(permille / 1000.0); }, 1);
}

}  // namespace vma
