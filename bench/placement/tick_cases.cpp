// Duration of one step of the scheduler, which collects the reported uses and runs a tick, with
// VMART_BENCH_CHUNKS (50 000) chunks, 1 % of which were used since the previous step. The policy is
// cost_benefit. `policy_bench` measures a million chunks, which no machine holds.

#include "bench/placement/cases.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t chunk_bytes = 2 * mebibyte;

Sample tick(std::uint64_t chunks) {
  RuntimeOptions options;
  options.policy = "cost_benefit";
  options.tick = std::chrono::hours(1);  // Only this case steps the scheduler.
  Runtime runtime(options);
  AllocOptions small;
  small.chunk_bytes = chunk_bytes;
  auto* data = static_cast<std::byte*>(runtime.alloc(chunks * chunk_bytes, gpu(0), small));
  for (std::uint64_t i = 0; i < chunks; ++i)
    runtime.record_use(data + i * chunk_bytes, chunk_bytes, gpu(0));
  runtime.step_scheduler();
  std::mt19937_64 random(1);
  std::vector<std::chrono::nanoseconds> took;
  const std::uint64_t steps = setting("VMART_BENCH_BATCHES", 200);
  for (std::uint64_t step = 0; step < steps; ++step) {
    for (std::uint64_t i = 0; i < std::max<std::uint64_t>(1, chunks / 100); ++i)
      runtime.record_use(data + random() % chunks * chunk_bytes, chunk_bytes, gpu(0));
    const Stopwatch watch;
    runtime.step_scheduler();
    took.push_back(watch.elapsed());
  }
  const SchedulerStats stats = runtime.scheduler_stats();
  runtime.free(data);
  Sample sample;
  sample.wall = median_of(took);
  add_percentiles(sample, "step", std::move(took));
  sample.counters["tick_median_us"] = to_us(stats.tick.median);
  sample.counters["tick_p99_us"] = to_us(stats.tick.p99);
  sample.counters["chunks"] = static_cast<double>(stats.chunks);
  sample.counters["table_bytes_a_chunk"] =
      static_cast<double>(stats.table_bytes) / static_cast<double>(stats.chunks);
  return sample;
}

}  // namespace

void register_tick_cases() {
  const std::uint64_t most = bytes_max(256 * mebibyte) / chunk_bytes;
  std::uint64_t chunks = setting("VMART_BENCH_CHUNKS", 50'000);
  // With little memory, as on simulated machines, uses fewer chunks.
  if (most < 1024) chunks = std::min(chunks, most);
  register_samples(
      "placement/tick/" + std::to_string(chunks), [chunks] { return tick(chunks); }, 1);
}

}  // namespace vma
