// Duration of a tick of the default policy with 50 000 and 1 000 000 chunks of which 1 % were used
// since the last tick, and the bytes per chunk that the books and the policy use. The machine has
// four GPUs like H200s and a host. Each chunk is used by one GPU and is in its HBM (`settled`); or
// half of the chunks are at the host and would profit from HBM, which is full of chunks that are no
// colder (`full`). Times are processor times, which do not depend on other load; `wall_us` is given
// as well.

#include "bench/harness/samples.hpp"

#include "placement/books/chunk_tables.hpp"
#include "placement/auto/auto.hpp"

#include <benchmark/benchmark.h>

#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace vma {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t gpus = 4;
constexpr std::uint64_t chunk_bytes = std::uint64_t{64} << 20;
constexpr PlaceId host_place{gpus};

PlaceId place(std::size_t number) {
  return PlaceId{static_cast<std::uint8_t>(number)};
}

MachineCosts costs() {
  MachineCosts costs(gpus, gpus + 1);
  for (std::size_t from = 0; from <= gpus; ++from) {
    for (std::size_t to = 0; to <= gpus; ++to) {
      const bool with_host = from == gpus || to == gpus;
      if (from < gpus)
        costs.access_rate(place(from), place(to)) = from == to ? 3.8e12 : with_host ? 52e9 : 390e9;
      if (from == to) continue;
      costs.copy_rate(place(from), place(to)) = with_host ? 54e9 : 395e9;
      costs.move_fixed(place(from), place(to)) = 200us;
      costs.stall_fixed(place(from), place(to)) = 200us;
    }
  }
  costs.rank();
  return costs;
}

PolicyValues values_of(const PolicyKind& kind) {
  PolicyValues values;
  for (const PolicyParameter& parameter : kind.parameters)
    values.set(parameter.name, parameter.otherwise);
  return values;
}

std::size_t bytes_in_use() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

/// Books with chunks, and a policy that has run once.
class Books {
 public:
  Books(std::size_t chunks, bool full) : chunks_(chunks), tables_(places(chunks, full), costs()) {
    policy_ = cost_benefit_kind().make(values_of(cost_benefit_kind()));
    std::vector<ChunkTables::NewChunk> added;
    tables_.set_now(1s);
    for (std::size_t i = 0; i < chunks; ++i) {
      const bool out = full && i % 8 >= gpus;  // Every second chunk does not fit at home.
      added.push_back({chunk_bytes, out ? host_place : place(i % gpus)});
    }
    tables_.add(1, "", added);
    added = {};
    for (std::size_t i = 0; i < chunks; ++i) use(i);
    const std::size_t before = bytes_in_use();
    tick();
    policy_bytes_ = bytes_in_use() - before;
  }

  /// Uses one chunk in a hundred, chosen at random for each tick.
  void use_some() {
    for (std::size_t i = 0; i < chunks_ / 100; ++i) use(random_() % chunks_);
    tables_.set_now(tables_.now() + 10ms);
  }
  std::size_t tick() {
    Plan plan;
    policy_->on_tick(Snapshot(tables_), plan);
    return plan.moves().size();
  }
  void forget_changes() { tables_.clear_changed(); }
  double table_bytes_a_chunk() const { return a_chunk(tables_.table_bytes()); }
  double heat_bytes_a_chunk() const { return a_chunk(tables_.heat_bytes()); }
  double policy_bytes_a_chunk() const { return a_chunk(policy_bytes_); }

 private:
  static std::vector<PlaceState> places(std::size_t chunks, bool full) {
    std::vector<PlaceState> places(gpus + 1);
    for (std::size_t i = 0; i <= gpus; ++i) {
      places[i].place = i < gpus ? gpu(static_cast<int>(i)) : host(0);
      places[i].capacity_bytes = chunks * chunk_bytes;
      if (full && i < gpus) places[i].capacity_bytes = chunks / 8 * chunk_bytes;
    }
    return places;
  }
  void use(std::size_t chunk) {
    const double passes = 1 + static_cast<double>(chunk % 97) / 97;
    tables_.used(ChunkId{static_cast<std::uint32_t>(chunk)}, place(chunk % gpus),
                 passes * chunk_bytes, 0);
  }
  double a_chunk(std::size_t bytes) const {
    return static_cast<double>(bytes) / static_cast<double>(chunks_);
  }

  std::size_t chunks_;
  ChunkTables tables_;
  std::unique_ptr<Policy> policy_;
  std::mt19937_64 random_{1};
  std::size_t policy_bytes_ = 0;
};

void tick(benchmark::State& state, std::size_t chunks, bool full) {
  Books books(chunks, full);
  books.forget_changes();
  std::vector<double> took, wall;
  std::size_t moves = 0;
  for ([[maybe_unused]] auto iteration : state) {
    books.use_some();
    const Stopwatch watch;
    const double begin = cpu_ns();
    moves += books.tick();
    took.push_back((cpu_ns() - begin) * 1e-9);
    wall.push_back(std::chrono::duration<double>(watch.elapsed()).count());
    state.SetIterationTime(took.back());
    books.forget_changes();
  }
  std::ranges::sort(took);
  std::ranges::sort(wall);
  state.counters["wall_us"] = wall[wall.size() / 2] * 1e6;
  state.counters["median_us"] = took[took.size() / 2] * 1e6;
  state.counters["most_us"] = took.back() * 1e6;
  state.counters["moves"] = static_cast<double>(moves);
  state.counters["table_bytes_a_chunk"] = books.table_bytes_a_chunk();
  state.counters["heat_bytes_a_chunk"] = books.heat_bytes_a_chunk();
  state.counters["policy_bytes_a_chunk"] = books.policy_bytes_a_chunk();
}

void register_all() {
  const auto ticks = static_cast<benchmark::IterationCount>(setting("VMART_BENCH_BATCHES", 100));
  for (const std::size_t chunks : {50'000, 1'000'000}) {
    for (const bool full : {false, true}) {
      const std::string name =
          "policy/cost_benefit/tick/" + std::string(full ? "full/" : "settled/");
      benchmark::RegisterBenchmark(
          (name + std::to_string(chunks)).c_str(),
          [chunks, full](benchmark::State& state) { tick(state, chunks, full); })
          ->Iterations(ticks)
          ->UseManualTime();
    }
  }
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_benchmarks(argc, argv, vma::register_all);
}
