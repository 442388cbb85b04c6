// How well the cost model predicts moves: live moves of one chunk, as the scheduler makes them,
// beside an application that reads, on each kind of route. Moves that are given up as busy, because
// the machine is overloaded, are counted and ignored.

#include "bench/placement/cases.hpp"
#include "bench/placement/readers.hpp"
#include "runtime/runtime_parts.hpp"
#include "scheduling/prediction_log.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

namespace vma {
namespace {

PlaceId place_of(Runtime& runtime, Place at) {
  const std::vector<Place> places = runtime.places();
  return PlaceId{static_cast<std::uint8_t>(std::ranges::find(places, at) - places.begin())};
}

/// Moves a chunk back and forth, and counts how often a move was given up.
struct RoundTrips {
  Runtime& runtime;
  std::byte* data;
  std::uint64_t chunk_bytes;
  std::uint64_t busy = 0;

  std::optional<MigrationReport> move(std::uint64_t offset, Place to) {
    try {
      return runtime.migrate_async(data, offset, chunk_bytes, to).wait();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::busy) throw;
      ++busy;
      return std::nullopt;
    }
  }
  /// Throws: std::runtime_error if every attempt is given up.
  void move_back(std::uint64_t offset, Place to) {
    constexpr int tries = 100;
    for (int i = 0; i < tries; ++i) {
      if (move(offset, to)) return;
    }
    throw std::runtime_error("a chunk does not get back: busy each time");
  }
};

Sample predictions(Place from, Place to) {
  Runtime runtime;
  const MachineCosts& costs = parts_of(runtime).machinery->costs;
  constexpr std::uint64_t chunks = 4;
  const std::uint64_t chunk_bytes =
      std::min(64 * mebibyte, bytes_max(chunks * 2 * mebibyte) / chunks);
  AllocOptions how;
  how.chunk_bytes = chunk_bytes;
  auto* data = static_cast<std::byte*>(runtime.alloc(chunks * chunk_bytes, from, how));
  RoundTrips trips{runtime, data, chunk_bytes};
  PredictionLog log;
  std::vector<std::chrono::nanoseconds> took;
  {
    Readers readers(runtime, data, {gpu(0)});
    readers.set_ranges({{{0, chunks * chunk_bytes}}});
    readers.rate(std::chrono::duration<double>(case_seconds() / 8));
    const std::uint64_t moves = setting("VMART_BENCH_MOVES", 100);
    for (std::uint64_t move = 0; move < moves; ++move) {
      const std::uint64_t offset = move % chunks * chunk_bytes;
      const std::optional<MigrationReport> there = trips.move(offset, to);
      if (!there) continue;
      trips.move_back(offset, from);
      if (move < chunks) continue;  // The first moves set up the route.
      log.add_move(costs, place_of(runtime, from), place_of(runtime, to), *there);
      took.push_back(there->wall);
    }
    readers.rate(std::chrono::duration<double>(0));
  }
  runtime.free(data);
  const PredictionSummary of_moves = log.total(Foretold::move);
  const PredictionSummary of_stalls = log.total(Foretold::stall);
  Sample sample;
  if (took.empty()) throw std::runtime_error("no move was left to measure, or all were busy");
  sample.wall = median_of(took);
  add_percentiles(sample, "move", std::move(took));
  sample.counters["move_error_median_share"] = of_moves.median_error;
  sample.counters["move_error_p90_share"] = of_moves.p90_error;
  sample.counters["move_bias_share"] = of_moves.bias;
  sample.counters["stall_error_median_share"] = of_stalls.median_error;
  sample.counters["busy"] = static_cast<double>(trips.busy);
  sample.counters["foretold_count"] = static_cast<double>(of_moves.count);
  return sample;
}

}  // namespace

void register_prediction_cases() {
  std::size_t gpus = 0;
  {
    Runtime runtime;
    gpus = gpus_of(runtime).size();
  }
  register_samples(
      "placement/prediction/gpu0-host0", [] { return predictions(gpu(0), host(0)); }, 1);
  register_samples(
      "placement/prediction/host0-gpu0", [] { return predictions(host(0), gpu(0)); }, 1);
  if (gpus < 2) return;
  register_samples(
      "placement/prediction/gpu0-gpu1", [] { return predictions(gpu(0), gpu(1)); }, 1);
}

}  // namespace vma
