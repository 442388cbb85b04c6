// The effect of a stall budget of 60 ms per second on the streams that gates stop, on other streams
// of the same GPU that know nothing about the runtime, and on the duration of the move.

#include "bench/live/cases.hpp"
#include "bench/live/rate_log.hpp"

#include <algorithm>
#include <vector>

namespace vma {
namespace {

constexpr std::chrono::milliseconds stall_budget(60);
constexpr std::chrono::microseconds kernel_time(50);

/// What limits the other streams. Kernels of the runtime cannot start while blocks occupy all
/// multiprocessors (`staying`), so stops then last as long as those kernels.
enum class Others { latency, bandwidth, staying };

WriterSpec other_streams(Others others, Place gpu, std::uint64_t bytes) {
  constexpr int word_bytes = 8;
  WriterSpec spec;
  spec.gpus = {gpu};
  spec.streams = others == Others::latency ? 2 : 1;
  spec.attached = false;
  spec.backlog = 4;
  spec.kernel = kernel_time;
  if (others != Others::latency) {
    spec.kernel = std::chrono::nanoseconds(0);
    spec.sweep_stays = others == Others::staying;
    spec.sweep_words = std::min(bytes, gibibyte) / word_bytes;
  }
  return spec;
}

Sample budget(Others others, std::uint64_t bytes) {
  // Fresh, so that its counters start here.
  Runtime& runtime = live_runtime({stall_budget, {}}, true);
  const std::vector<Place> gpus = live_gpus(2);
  const MigrateOptions options = options_of(MoveMode::live);
  MovedRange range(runtime, gpus[0], bytes);
  range.reserve(gpus[1]);
  WriterSpec spec = few_writes(range, 2, kernel_time);
  spec.gpus = {gpus[0]};
  spec.backlog = 4;
  Writers gated(runtime, spec);
  Writers beside(runtime, other_streams(others, gpus[0], bytes));
  move_to_and_fro(range, gpus[0], gpus[1], options, 2, 0);

  TwoLogs logs(gated, beside);
  const auto rest = [](RateLog& log) {
    log.watch(std::chrono::nanoseconds(static_cast<std::int64_t>(case_seconds() * 1e9 / 3)));
  };
  MoveTally tally;
  const TwoLogs::Stretch before = logs.over(rest);
  const TwoLogs::Stretch during = logs.over([&](RateLog&) {
    tally = move_to_and_fro(range, gpus[0], gpus[1], options, 1 << 20, case_seconds());
  });
  const TwoLogs::Stretch after = logs.over(rest);
  beside.stop();
  range.check(gated.stop());

  Sample sample;
  tally.add_to(sample);
  add_stops(sample, runtime.stats());
  sample.counters["gated_lost_share"] = share_lost(before.one, during.one, after.one);
  sample.counters["others_lost_share"] = share_lost(before.other, during.other, after.other);
  sample.counters["gated_before_per_s"] = before.one;
  sample.counters["gated_during_per_s"] = during.one;
  sample.counters["others_before_per_s"] = before.other;
  sample.counters["others_during_per_s"] = during.other;
  return sample;
}

}  // namespace

void register_budget_cases() {
  const std::uint64_t bytes = sizes_up_to_max({16 * gibibyte}).front();
  const std::vector<std::pair<Others, std::string>> kinds = {
      {Others::latency, "latency"}, {Others::bandwidth, "bandwidth"}, {Others::staying, "staying"}};
  for (const auto& [others, label] : kinds) {
    register_samples(
        "live/budget/" + label + "/" + size_label(bytes),
        [others = others, bytes] { return budget(others, bytes); }, 1);
  }
}

}  // namespace vma
