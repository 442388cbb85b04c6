// Cost of `migrate` by route and size: with a warm cache, with an empty one beside keepers, and
// with one whose memory was just released; and how long a slot is dark. Wall time is measured from
// the call to its return, when all GPUs can use the data.

#include "bench/harness/machine.hpp"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

/// `freed`: the cache was just emptied, so the driver is still scrubbing that memory.
enum class Cache { warm, empty, freed };

struct FreeAllocation {
  void operator()(void* pointer) const noexcept {
    try {
      shared_runtime().free(pointer);
    } catch (const std::exception&) {  // The benchmark has already failed and reported why.
    }
  }
};

/// One allocation that moves between two places of the shared runtime. After construction, the
/// caches hold its target chunks for both directions.
class MigrateRig {
 public:
  MigrateRig(const Route& route, std::uint64_t bytes)
      : runtime_(shared_runtime()), here_(route.first), bytes_(bytes) {
    for (const Place& at : runtime_.places()) runtime_.trim(at);
    AllocOptions options;
    options.chunk_bytes = setting("VMART_BENCH_CHUNK_BYTES", 0);
    options.tag = "bench";
    pointer_.reset(runtime_.alloc(bytes, here_, options));
    write_pattern(runtime_, pointer_.get(), bytes_, bytes_);
    const MigrationReport first = migrate_to(route.second);
    const std::uint64_t chunk_bytes = first.bytes_moved / static_cast<std::uint64_t>(first.chunks);
    migrate_to(route.first);
    runtime_.reserve(route.second, bytes_, chunk_bytes);
    migrate_to(route.second);
    migrate_to(route.first);
  }

  MigrateRig(const MigrateRig&) = delete;
  MigrateRig& operator=(const MigrateRig&) = delete;

  Sample move(const Route& route, Cache cache) {
    if (here_ != route.first) migrate_to(route.first);
    if (cache != Cache::warm) {
      const std::uint64_t freed_bytes = runtime_.trim(route.second);
      if (cache == Cache::empty) let_scrubbing_end(freed_bytes);
    }
    const Stopwatch watch;
    const MigrationReport report = migrate_to(route.second);
    Sample sample = sample_of(report);
    sample.wall = watch.elapsed();
    return sample;
  }

  /// Moves back and forth, `moves` times in total. The sample's wall time is the median.
  Sample many_moves(const Route& route, int moves) {
    if (here_ != route.first) migrate_to(route.first);
    std::vector<std::chrono::nanoseconds> dark, stall, wall, unmap, map, grant;
    for (int move = 0; move < moves; ++move) {
      const Stopwatch watch;
      const MigrationReport report = migrate_to(move % 2 == 0 ? route.second : route.first);
      wall.push_back(watch.elapsed());
      dark.push_back(report.dark_max);
      stall.push_back(report.stall.max);
      unmap.push_back(report.phases.unmap);
      map.push_back(report.phases.map);
      grant.push_back(report.phases.grant);
    }
    Sample sample;
    sample.wall = median_of(wall);
    sample.counters["moves"] = moves;
    add_percentiles(sample, "dark", std::move(dark));
    add_percentiles(sample, "stall", std::move(stall));
    add_percentiles(sample, "wall", std::move(wall));
    add_percentiles(sample, "unmap", std::move(unmap));
    add_percentiles(sample, "map", std::move(map));
    add_percentiles(sample, "grant", std::move(grant));
    return sample;
  }

  void check() { check_pattern(runtime_, pointer_.get(), bytes_, bytes_); }

 private:
  MigrationReport migrate_to(Place to) {
    MigrationReport report = runtime_.migrate(pointer_.get(), to);
    if (report.outcome != Outcome::done || report.bytes_moved < bytes_) {
      throw std::runtime_error("moved " + std::to_string(report.bytes_moved) + " bytes of " +
                               std::to_string(bytes_));
    }
    here_ = to;
    return report;
  }

  static Sample sample_of(const MigrationReport& report) {
    Sample sample;
    sample.counters["chunks"] = report.chunks;
    sample.counters["cache_us"] = to_us(report.phases.cache);
    sample.counters["wait_us"] = to_us(report.phases.wait);
    sample.counters["copy_us"] = to_us(report.phases.copy);
    sample.counters["unmap_us"] = to_us(report.phases.unmap);
    sample.counters["map_us"] = to_us(report.phases.map);
    sample.counters["grant_us"] = to_us(report.phases.grant);
    sample.counters["retire_us"] = to_us(report.phases.retire);
    sample.counters["dark_us"] = to_us(report.dark_max);
    sample.counters["stall_us"] = to_us(report.stall.max);
    return sample;
  }

  Runtime& runtime_;
  Place here_;
  std::uint64_t bytes_;
  std::unique_ptr<void, FreeAllocation> pointer_;
};

/// The rig of the current benchmark. A change of route or size first releases the previous rig's
/// memory.
class CurrentRig {
 public:
  MigrateRig& of(const Route& route, std::uint64_t bytes) {
    const std::string key = route_label(route) + size_label(bytes);
    if (key != key_) {
      finish();
      rig_ = std::make_unique<MigrateRig>(route, bytes);
      key_ = key;
    }
    return *rig_;
  }

  /// Throws: std::runtime_error if the previous rig's moves lost bytes.
  void finish() {
    key_.clear();
    const std::unique_ptr<MigrateRig> last = std::move(rig_);
    if (last) last->check();
  }

 private:
  std::unique_ptr<MigrateRig> rig_;
  std::string key_;
};

void register_moves(CurrentRig& current, Cache cache, const Route& route,
                    const std::vector<std::uint64_t>& sizes) {
  const std::string state = cache == Cache::warm    ? "warm"
                            : cache == Cache::empty ? "empty"
                                                    : "freed";
  for (const std::uint64_t bytes : sizes) {
    register_samples(
        "migrate/" + state + "/" + route_label(route) + "/" + size_label(bytes),
        [&current, cache, route, bytes] { return current.of(route, bytes).move(route, cache); });
  }
}

void register_all(CurrentRig& current) {
  Runtime& runtime = shared_runtime();
  const int moves = static_cast<int>(setting("VMART_BENCH_MOVES", 1000));
  const auto sizes = sizes_up_to_max(
      {64 * mebibyte, 256 * mebibyte, gibibyte, 4 * gibibyte, 8 * gibibyte, 16 * gibibyte});
  const auto host_sizes =
      sizes_up_to_max({64 * mebibyte, 256 * mebibyte, gibibyte, 4 * gibibyte, 16 * gibibyte});
  for (const Route& route : gpu_routes(runtime)) {
    register_moves(current, Cache::warm, route, sizes);
    register_moves(current, Cache::empty, route, sizes);
    register_moves(current, Cache::freed, route, sizes_up_to_max({256 * mebibyte, 8 * gibibyte}));
  }
  for (const Route& route : host_routes(runtime)) {
    register_moves(current, Cache::warm, route, host_sizes);
    register_moves(current, Cache::empty, route, sizes_up_to_max({64 * mebibyte, gibibyte}));
  }
  const std::uint64_t chunk = sizes_up_to_max({256 * mebibyte}).front();
  for (const Route& route : gpu_routes(runtime)) {
    register_samples(
        "migrate/dark/" + route_label(route) + "/" + size_label(chunk),
        [&current, route, chunk, moves] {
          return current.of(route, chunk).many_moves(route, moves);
        },
        1);
    break;  // Every second move goes in the opposite direction, so one route is enough.
  }
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  int status = 0;
  {
    vma::CurrentRig current;
    status = vma::run_benchmarks(argc, argv, [&] { vma::register_all(current); });
    try {
      current.finish();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      status = 1;
    }
  }
  vma::close_shared_runtime();
  return status;
}
