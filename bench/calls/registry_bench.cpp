// Cost of looking up an address in the registry, with 1, 1 000 and 1 000 000 allocations and
// uniformly random addresses: independent ones, as several threads issue them, and dependent ones,
// where each address is known only after the previous answer.

#include "bench/harness/samples.hpp"

#include "base/mutex.hpp"
#include "base/units.hpp"
#include "memory/registry.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t granule = 2 * MiB;
constexpr Address first_address{0x300000000000};
constexpr std::size_t keys_count = std::size_t{1} << 20;
constexpr std::size_t lookups_a_batch = std::size_t{1} << 16;

/// A registry of `allocations` ranges with gaps between them, most of them small and some up to 64
/// MiB; and addresses inside them, with all allocations equally likely.
struct Table {
  Registry registry{granule};
  std::vector<std::uint64_t> keys;

  explicit Table(std::size_t allocations) {
    std::mt19937_64 random(allocations);
    std::vector<std::pair<Address, std::uint64_t>> ranges;
    Address next = first_address;
    for (std::size_t index = 0; index < allocations; ++index) {
      const int doublings = std::min(5, std::countr_zero(random() | (std::uint64_t{1} << 63)));
      const std::uint64_t bytes = granule << doublings;
      registry.insert(next, bytes, granule, nullptr);
      ranges.emplace_back(next, bytes);
      next = next + bytes + granule * (random() % 2);
    }
    keys.reserve(keys_count);
    for (std::size_t key = 0; key < keys_count; ++key) {
      const auto& [begin, bytes] = ranges[random() % ranges.size()];
      keys.push_back(to_integer(begin) + random() % bytes);
    }
  }
};

/// Brings table and keys into the caches. The caller must use the result, so that the compiler
/// keeps the look-ups.
std::uint64_t warm_up(const Table& table) {
  std::uint64_t found_slots = 0;
  for (const std::uint64_t key : table.keys) {
    const auto found = table.registry.find(Address{key});
    found_slots += found ? found->slot + 1u : 0u;
  }
  return found_slots;
}

/// Created on first use by any thread.
const Table& table_of(std::size_t allocations) {
  static Mutex mutex;
  static std::map<std::size_t, std::unique_ptr<Table>> tables;
  const MutexLock lock(mutex);
  std::unique_ptr<Table>& table = tables[allocations];
  if (!table) table = std::make_unique<Table>(allocations);
  return *table;
}

void report(benchmark::State& state, std::chrono::nanoseconds took) {
  const double lookups = static_cast<double>(state.iterations()) * lookups_a_batch;
  state.counters["ns_per_lookup"] = benchmark::Counter(static_cast<double>(took.count()) / lookups,
                                                       benchmark::Counter::kAvgThreads);
}

void look_up_independent(benchmark::State& state, std::size_t allocations) {
  const Table& table = table_of(allocations);
  std::size_t key = static_cast<std::size_t>(state.thread_index()) * keys_count / 2;
  std::uint64_t found_slots = warm_up(table);
  std::chrono::nanoseconds took{0};
  for ([[maybe_unused]] auto iteration : state) {
    const Stopwatch watch;
    for (std::size_t lookup = 0; lookup < lookups_a_batch; ++lookup) {
      const auto found = table.registry.find(Address{table.keys[key++ % keys_count]});
      found_slots += found ? found->slot + 1u : 0u;
    }
    took += watch.elapsed();
  }
  benchmark::DoNotOptimize(found_slots);
  if (found_slots < keys_count) state.SkipWithError("addresses were not found");
  report(state, took);
}

void look_up_dependent(benchmark::State& state, std::size_t allocations) {
  const Table& table = table_of(allocations);
  std::size_t key = 0;
  benchmark::DoNotOptimize(warm_up(table));
  std::uint64_t last = 0;
  std::chrono::nanoseconds took{0};
  for ([[maybe_unused]] auto iteration : state) {
    const Stopwatch watch;
    for (std::size_t lookup = 0; lookup < lookups_a_batch; ++lookup) {
      // A slot's number is far below 2^31, so this adds zero but waits for the previous answer.
      const Address address{table.keys[key++ % keys_count] + (last >> 31)};
      const auto found = table.registry.find(address);
      last = found ? found->slot : 0;
    }
    took += watch.elapsed();
  }
  benchmark::DoNotOptimize(last);
  report(state, took);
}

void register_all() {
  for (const std::size_t allocations : {1, 1000, 1000000}) {
    const std::string size = "/" + std::to_string(allocations);
    for (const int threads : {1, 2}) {
      register_threads(
          "registry/independent/threads" + std::to_string(threads) + size, threads, 20,
          [allocations](benchmark::State& state) { look_up_independent(state, allocations); });
    }
    register_threads(
        "registry/dependent/threads1" + size, 1, 20,
        [allocations](benchmark::State& state) { look_up_dependent(state, allocations); });
  }
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_benchmarks(argc, argv, vma::register_all);
}
