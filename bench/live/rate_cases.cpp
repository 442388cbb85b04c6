// How fast a large allocation moves live without a stall budget, with target chunks allocated in
// advance and without, compared with a raw copy of the same number of bytes in the same process;
// and how much work the application does meanwhile.

#include "bench/live/cases.hpp"
#include "bench/live/rate_log.hpp"
#include "bench/live/raw_copies.hpp"
#include "bench/machine.hpp"

#include <vector>

namespace vma {
namespace {

/// One move, and the rate of the writers during it.
struct WatchedMoves {
  MoveTally tally;
  double launches = 0;
  double seconds = 0;

  double per_second() const { return seconds > 0 ? launches / seconds : 0; }
};

void watch_move(LiveRange& range, RateLog& log, Location to, WatchedMoves& watched) {
  const std::size_t begin = log.last();
  const Migration migration = range.start(to, options_of(MoveMode::live));
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

Sample rate(bool warm, std::uint64_t bytes) {
  Runtime& runtime = live_runtime();
  const std::vector<Location> gpus = live_gpus(2);
  const double raw_gb_s = raw_copy_gb_s(runtime, gpus[0], {gpus[1]}, bytes);
  LiveRange range(runtime, gpus[0], bytes);
  if (warm) range.reserve(gpus[1]);
  WriterSpec spec = few_writes(range, 4, std::chrono::microseconds(20));
  spec.backlog = 4;
  Writers writers(runtime, spec);
  MoveTally warming;
  range.move(gpus[1], options_of(MoveMode::live), warming);
  range.move(gpus[0], options_of(MoveMode::live), warming);

  RateLog log(writers);
  WatchedMoves watched;
  const double before = watch_rest(log);
  const Stopwatch watch;
  while (watched.tally.tried() < 2 || to_us(watch.elapsed()) < case_seconds() * 1e6) {
    const Location to = gpus[range.home() == gpus[0] ? 1 : 0];
    if (!warm) let_scrubbing_end(runtime.trim(to));
    log.look();
    watch_move(range, log, to, watched);
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
  const std::uint64_t bytes = sizes_up_to_max({16 * gibibyte}).front();
  for (const bool warm : {true, false}) {
    register_samples(
        std::string("live/rate/") + (warm ? "warm/" : "cold/") + size_label(bytes),
        [warm, bytes] { return rate(warm, bytes); }, 1);
  }
}

}  // namespace vma
