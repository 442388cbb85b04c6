// What decisions take with 50 000 and 1 000 000 chunks of which 1 % were used since the last tick,
// and the bytes per chunk that the books and the policy use: a tick of a policy (`tick`), the same
// with entering the uses into the books and reporting them (`uses`), and victims for one chunk that
// needs room (`pressure`). The machine has four GPUs like H200s and a host. Each chunk is used by
// one GPU and is in its HBM (`settled`); or half of the chunks are at the host and would profit
// from HBM, which is full of chunks that are no colder (`full`). Times are processor times, which
// do not depend on other load; `wall_us` is given as well.

#include "bench/harness/samples.hpp"

#include "placement/auto/auto.hpp"
#include "placement/deciding/decision_path.hpp"

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

enum class What { tick, uses, pressure };
constexpr What whats[] = {What::tick, What::uses, What::pressure};

const char* to_string(What what) {
  return what == What::tick ? "tick" : what == What::uses ? "uses" : "pressure";
}

/// Chunks, and a policy that has run once.
class Decider {
 public:
  Decider(const PolicyKind& kind, std::size_t chunks, bool full)
      : chunks_(chunks), path_(places(chunks, full), costs(), {}, {}) {
    policy_ = kind.make(values_of(kind));
    std::vector<ChunkTables::NewChunk> added;
    path_.books().set_now(1s);
    for (std::size_t i = 0; i < chunks; ++i) {
      const bool out = full && i % 8 >= gpus;  // Every second chunk does not fit at home.
      added.push_back({chunk_bytes, out ? host_place : place(i % gpus)});
    }
    path_.books().add(1, "", added);
    added = {};
    for (std::size_t i = 0; i < chunks; ++i) use(i);
    enter_uses();
    forget_uses();
    const std::size_t before = bytes_in_use();
    decide();
    policy_bytes_ = bytes_in_use() - before;
    path_.books().clear_changed();
  }

  /// Something has happened: time passes, and one chunk in a hundred is used.
  void use_some() {
    path_.books().clear_changed();
    path_.books().set_now(path_.books().now() + 10ms);
    reports_ = {};
    for (std::size_t i = 0; i < chunks_ / 100; ++i) use(random_() % chunks_);
  }
  void enter_uses() { path_.fold_uses(reports_.uses); }
  /// Returns how many moves are proposed.
  std::size_t decide() {
    Plan plan;
    path_.ask(*policy_, plan, [&](Policy& policy, const Snapshot& snapshot, Plan& proposals) {
      reports_.tell(policy, snapshot, proposals);
      policy.on_tick(snapshot, proposals);
    });
    return plan.moves().size();
  }
  void forget_uses() { reports_ = {}; }
  std::size_t press() {
    Plan plan;
    path_.complete_pressure({place(0), chunk_bytes, place(0)}, plan);
    return plan.moves().size();
  }
  double table_bytes_a_chunk() const { return a_chunk(path_.books().table_bytes()); }
  double heat_bytes_a_chunk() const { return a_chunk(path_.books().heat_bytes()); }
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
    reports_.uses.push_back({ChunkId{static_cast<std::uint32_t>(chunk)}, place(chunk % gpus),
                             passes * chunk_bytes, 0, nullptr});
  }
  double a_chunk(std::size_t bytes) const {
    return static_cast<double>(bytes) / static_cast<double>(chunks_);
  }

  std::size_t chunks_;
  DecisionPath path_;
  std::unique_ptr<Policy> policy_;
  UseReports reports_;
  std::mt19937_64 random_{1};
  std::size_t policy_bytes_ = 0;
};

void decide(benchmark::State& state, const PolicyKind& kind, What what, std::size_t chunks,
            bool full) {
  Decider decider(kind, chunks, full);
  std::vector<double> took, wall;
  std::size_t moves = 0;
  for ([[maybe_unused]] auto iteration : state) {
    decider.use_some();
    if (what != What::uses) {
      decider.enter_uses();
      decider.forget_uses();
    }
    const Stopwatch watch;
    const double begin = cpu_ns();
    if (what == What::uses) decider.enter_uses();
    moves += what == What::pressure ? decider.press() : decider.decide();
    took.push_back((cpu_ns() - begin) * 1e-9);
    wall.push_back(std::chrono::duration<double>(watch.elapsed()).count());
    state.SetIterationTime(took.back());
  }
  std::ranges::sort(took);
  std::ranges::sort(wall);
  state.counters["wall_us"] = wall[wall.size() / 2] * 1e6;
  state.counters["median_us"] = took[took.size() / 2] * 1e6;
  state.counters["most_us"] = took.back() * 1e6;
  state.counters["moves"] = static_cast<double>(moves);
  state.counters["table_bytes_a_chunk"] = decider.table_bytes_a_chunk();
  state.counters["heat_bytes_a_chunk"] = decider.heat_bytes_a_chunk();
  state.counters["policy_bytes_a_chunk"] = decider.policy_bytes_a_chunk();
}

void register_all() {
  const auto ticks = static_cast<benchmark::IterationCount>(setting("VMART_BENCH_BATCHES", 100));
  for (const PolicyKind& kind : {cost_benefit_kind(), auto_kind()}) {
    for (const What what : whats) {
      if (what == What::pressure && kind.name == "auto")
        continue;  // The planner's, whatever policy.
      for (const std::size_t chunks : {50'000, 1'000'000}) {
        for (const bool full : {false, true}) {
          const std::string name = "policy/" + std::string(kind.name) + "/" + to_string(what) +
                                   (full ? "/full/" : "/settled/") + std::to_string(chunks);
          benchmark::RegisterBenchmark(name.c_str(),
                                       [kind, what, chunks, full](benchmark::State& state) {
                                         decide(state, kind, what, chunks, full);
                                       })
              ->Iterations(ticks)
              ->UseManualTime();
        }
      }
    }
  }
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_benchmarks(argc, argv, vma::register_all);
}
