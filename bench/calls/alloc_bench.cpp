// Cost of `alloc` and `free`: together with a warm cache, and for the first `alloc` of a new
// runtime.

#include "bench/harness/machine.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace vma {
namespace {

constexpr int warm_ups = 3;
// Number of runtimes opened in one process; each opens its contexts.
constexpr std::uint64_t openings_max = 3;

/// One sample: opens a runtime, uses it once, and shuts it down.
Sample first_alloc(std::uint64_t bytes) {
  close_shared_runtime();
  let_scrubbing_end(2 * bytes);  // Of the previous sample's memory.
  const Stopwatch opening;
  Runtime runtime;
  Sample sample;
  sample.counters["open_us"] = to_us(opening.elapsed());
  const Place gpu = runtime.places().front();

  const Stopwatch first;
  void* const pointer = runtime.alloc(bytes, gpu);
  sample.wall = first.elapsed();

  // A second allocation separates the costs of the first from those of any new chunk.
  const Stopwatch second;
  void* const other = runtime.alloc(bytes, gpu);
  sample.counters["second_alloc_us"] = to_us(second.elapsed());
  runtime.free(other);
  runtime.free(pointer);
  return sample;
}

/// Allocates and frees `bytes`, which the cache already holds.
Sample alloc_and_free(std::uint64_t bytes) {
  Runtime& runtime = shared_runtime();
  const Place gpu = runtime.places().front();
  const Stopwatch watch;
  void* const pointer = runtime.alloc(bytes, gpu);
  const std::chrono::nanoseconds allocated = watch.elapsed();
  runtime.free(pointer);
  Sample sample;
  sample.wall = watch.elapsed();
  sample.counters["alloc_us"] = to_us(allocated);
  sample.counters["free_us"] = to_us(sample.wall - allocated);
  return sample;
}

void register_all() {
  const auto openings = std::min(setting("VMART_BENCH_REPETITIONS", 20), openings_max);
  for (const std::uint64_t bytes : sizes_up_to_max({256 * mebibyte, 4 * gibibyte})) {
    register_samples(
        "first_alloc/" + size_label(bytes), [bytes] { return first_alloc(bytes); },
        static_cast<int>(openings));
  }
  for (const std::uint64_t bytes :
       sizes_up_to_max({2 * mebibyte, 16 * mebibyte, 64 * mebibyte, 256 * mebibyte})) {
    register_samples("alloc_free/" + size_label(bytes), [bytes, warm = false]() mutable {
      for (int round = 0; round < warm_ups && !warm; ++round) alloc_and_free(bytes);
      warm = true;
      return alloc_and_free(bytes);
    });
  }
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_on_shared_runtime(argc, argv, vma::register_all);
}
