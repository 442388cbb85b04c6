// The progress of one attached stream over two seconds, in the middle of which a few GiB move: live
// with and without a stall budget, chunk by chunk under a gate, and under one hold.

#include "bench/live/cases.hpp"
#include "bench/live/rate_log.hpp"

#include <vector>

namespace vma {
namespace {

constexpr std::chrono::milliseconds look_period(1);

Sample timeline(MoveMode mode, std::chrono::milliseconds stall_budget, std::uint64_t bytes) {
  Runtime& runtime = live_runtime({stall_budget, {}, mode == MoveMode::held});
  const std::vector<Place> gpus = live_gpus(2);
  const MigrateOptions options = options_of(mode);
  MovedRange range(runtime, gpus[0], bytes);
  range.reserve(gpus[1]);
  WriterSpec spec = few_writes(range, 1, std::chrono::microseconds(10));
  spec.backlog = 4;
  Writers writers(runtime, spec);
  move_to_and_fro(range, gpus[0], gpus[1], options, 2, 0);

  const std::chrono::nanoseconds quarter(static_cast<std::int64_t>(case_seconds() * 1e9 / 6));
  RateLog log(writers, look_period);
  MoveTally tally;
  log.watch(quarter);
  const double begin_ms = log.at_ms(log.last());
  const Migration migration = range.start(gpus[1], options);
  log.watch(migration);
  const double end_ms = log.at_ms(log.last());
  range.finish(migration, gpus[1], tally);
  const double rest_ms = 4 * to_us(quarter) / 1e3 - end_ms;
  if (rest_ms > 0) log.watch(std::chrono::nanoseconds(static_cast<std::int64_t>(rest_ms * 1e6)));
  range.check(writers.stop());

  Sample sample;
  tally.add_to(sample);
  log.add_to(sample);
  sample.counters["begin_ms"] = begin_ms;
  sample.counters["end_ms"] = end_ms;
  return sample;
}

}  // namespace

void register_timeline_cases() {
  const std::uint64_t bytes = sizes_up_to_max({4 * gibibyte}).front();
  const auto add = [bytes](const std::string& label, MoveMode mode,
                           std::chrono::milliseconds stall_budget) {
    register_samples(
        "live/timeline/" + label + "/" + size_label(bytes),
        [=] { return timeline(mode, stall_budget, bytes); }, 1);
  };
  add("live", MoveMode::live, std::chrono::milliseconds(0));
  add("live_budget", MoveMode::live, std::chrono::milliseconds(60));
  add("stopped", MoveMode::stopped, std::chrono::milliseconds(0));
  add("held", MoveMode::held, std::chrono::milliseconds(0));
}

}  // namespace vma
