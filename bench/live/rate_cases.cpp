// How fast a large allocation moves live without a stall budget, with target chunks allocated in
// advance and without, compared with a raw copy of the same number of bytes in the same process;
// and how much work the application does meanwhile, on both GPUs or on one, by copy share.

#include "bench/live/cases.hpp"
#include "bench/live/rate_log.hpp"
#include "bench/harness/raw_copies.hpp"
#include "bench/harness/machine.hpp"

#include <vector>

namespace vma {
namespace {

struct RateCase {
  std::uint64_t bytes = 0;
  bool warm = true;
  bool one_gpu = false;
  int share_percent = 50;
};

MigrateOptions options_of(const RateCase& chosen) {
  MigrateOptions options = options_of(MoveMode::live);
  options.copy_share_percent = chosen.share_percent;
  return options;
}

/// One move, and the rate of the writers during it.
struct WatchedMoves {
  MoveTally tally;
  double launches = 0;
  double seconds = 0;

  double per_second() const { return seconds > 0 ? launches / seconds : 0; }
};

void watch_move(MovedRange& range, RateLog& log, Place to, const MigrateOptions& options,
                WatchedMoves& watched) {
  const std::size_t begin = log.last();
  const Migration migration = range.start(to, options);
  log.watch(migration);
  const double seconds = (log.at_ms(log.last()) - log.at_ms(begin)) / 1e3;
  watched.launches += log.per_second(begin, log.last()) * seconds;
  watched.seconds += seconds;
  range.finish(migration, to, watched.tally);
}

double watch_rest(RateLog& log) {
  const std::size_t begin = log.last();
  log.watch(std::chrono::nanoseconds(static_cast<std::int64_t>(case_seconds() * 1e9 / 4)));
  return log.per_second(begin, log.last());
}

Sample rate(const RateCase& chosen) {
  const std::uint64_t bytes = chosen.bytes;
  const MigrateOptions options = options_of(chosen);
  Runtime& runtime = live_runtime();
  const std::vector<Place> gpus = live_gpus(2);
  const double raw_gb_s = raw_copy_gb_s(runtime, gpus[0], {gpus[1]}, bytes);
  MovedRange range(runtime, gpus[0], bytes);
  if (chosen.warm) range.reserve(gpus[1]);
  WriterSpec spec = few_writes(range, 4, std::chrono::microseconds(20));
  spec.backlog = 4;
  if (chosen.one_gpu) spec.gpus.resize(1);
  Writers writers(runtime, spec);
  MoveTally warming;
  range.move(gpus[1], options, warming);
  range.move(gpus[0], options, warming);

  RateLog log(writers);
  WatchedMoves watched;
  const double before = watch_rest(log);
  const Stopwatch watch;
  while (watched.tally.tried() < 2 || to_us(watch.elapsed()) < case_seconds() * 1e6) {
    const Place to = gpus[range.place() == gpus[0] ? 1 : 0];
    if (!chosen.warm) let_scrubbing_end(runtime.trim(to));
    log.look();
    watch_move(range, log, to, options, watched);
  }
  const double after = watch_rest(log);
  range.check(writers.stop());

  Sample sample;
  watched.tally.add_to(sample);
  sample.counters["raw_gb_s"] = raw_gb_s;
  sample.counters["launches_before_per_s"] = before;
  sample.counters["launches_during_per_s"] = watched.per_second();
  sample.counters["launches_after_per_s"] = after;
  sample.counters["lost_share"] = share_lost(before, watched.per_second(), after);
  return sample;
}

}  // namespace

void register_rate_cases() {
  const auto add = [](const std::string& name, const RateCase& chosen) {
    register_samples(
        "live/" + name + "/" + size_label(chosen.bytes), [chosen] { return rate(chosen); }, 1);
  };
  RateCase chosen;
  chosen.bytes = sizes_up_to_max({16 * gibibyte}).front();
  add("rate/warm", chosen);
  chosen.warm = false;
  add("rate/cold", chosen);
  chosen.warm = true;
  for (const bool one_gpu : {false, true}) {
    chosen.one_gpu = one_gpu;
    for (const int percent : {12, 25, 50, 75, 100}) {
      chosen.share_percent = percent;
      add("share/" + std::string(one_gpu ? "one_gpu/" : "both_gpus/") + std::to_string(percent),
          chosen);
    }
  }
}

}  // namespace vma
