// Cost of recording a use on the recording thread: alone, beside another thread, in batches, with
// times, and while the scheduler empties the rings. Each thread measures its own time. Except in
// the case of a full ring, a ring is never more than half full, where no sampling happens.

#include "bench/harness/samples.hpp"

#include "base/executor.hpp"
#include "telemetry/use_log.hpp"

#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t uses_a_batch = 2048;  // Half of a ring.
constexpr std::size_t uses_a_call = 16;

const SteadyClock& steady_clock() {
  static const SteadyClock clock;
  return clock;
}

Use use_of(std::size_t number) {
  return {to_pointer(Address{0x300000000000 + (number << 21)}), 1 << 20, gpu(0)};
}

enum class Form { single, batch };

void record_batch(UseLog& log, Form form) {
  if (form == Form::single) {
    for (std::size_t i = 0; i < uses_a_batch; ++i) log.record(use_of(i));
    return;
  }
  std::array<Use, uses_a_call> uses;
  for (std::size_t i = 0; i < uses_a_call; ++i) uses[i] = use_of(i);
  for (std::size_t i = 0; i < uses_a_batch / uses_a_call; ++i) log.record(uses);
}

/// Times of batches. Reports the median, which excludes batches that other programs on the machine
/// interrupted.
class BatchTimes {
 public:
  void add(const Stopwatch& watch) { times_.push_back(watch.elapsed()); }
  void report(benchmark::State& state) const {
    const auto median = static_cast<double>(median_of(times_).count());
    state.counters["ns_per_use"] =
        benchmark::Counter(median / uses_a_batch, benchmark::Counter::kAvgThreads);
  }

 private:
  std::vector<std::chrono::nanoseconds> times_;
};

/// Each thread has its own log, which it drains between two batches, outside the timed part.
void record_alone(benchmark::State& state, Form form, bool stamped) {
  UseLog log(steady_clock());
  log.timestamps(stamped);
  std::vector<LoggedUse> uses;
  record_batch(log, form);  // Creates the ring and touches its pages.
  BatchTimes times;
  for ([[maybe_unused]] auto iteration : state) {
    log.collect(uses, uses_a_batch);
    uses.clear();
    const Stopwatch watch;
    record_batch(log, form);
    times.add(watch);
  }
  if (log.counters().sampled_away + log.counters().lost > 0)
    state.SkipWithError("uses are missing");
  times.report(state);
}

/// A log, and a thread that continuously drains it in small steps.
struct DrainedLog {
  UseLog log{steady_clock()};
  std::atomic<std::uint64_t> drained{0};
  std::atomic<bool> over{false};
  ThreadedExecutor executor;
  std::unique_ptr<Task> drain = executor.spawn("drain", [this] {
    std::vector<LoggedUse> uses;
    while (!over) {
      drained += log.collect(uses, 256);
      uses.clear();
    }
  });
  ~DrainedLog() {
    over = true;
    drain->join();
  }
};

/// Each batch starts with an empty ring, which is drained concurrently.
void record_beside_drain(benchmark::State& state) {
  DrainedLog drained;
  record_batch(drained.log, Form::single);
  std::uint64_t recorded = uses_a_batch;
  BatchTimes times;
  for ([[maybe_unused]] auto iteration : state) {
    Poll poll;
    while (drained.drained < recorded) poll.pause();
    const Stopwatch watch;
    record_batch(drained.log, Form::single);
    times.add(watch);
    recorded += uses_a_batch;
  }
  times.report(state);
}

void record_into_full(benchmark::State& state) {
  UseLog log(steady_clock());
  while (log.counters().lost == 0) record_batch(log, Form::single);
  BatchTimes times;
  for ([[maybe_unused]] auto iteration : state) {
    const Stopwatch watch;
    record_batch(log, Form::single);
    times.add(watch);
  }
  times.report(state);
}

void add(const std::string& name, int threads, std::function<void(benchmark::State&)> body) {
  register_threads("use_log/" + name + "/threads" + std::to_string(threads), threads, 500,
                   std::move(body));
}

void register_all() {
  for (const int threads : {1, 2}) {
    add("single", threads,
        [](benchmark::State& state) { record_alone(state, Form::single, false); });
    add("batch16", threads,
        [](benchmark::State& state) { record_alone(state, Form::batch, false); });
    add("stamped", threads,
        [](benchmark::State& state) { record_alone(state, Form::single, true); });
  }
  add("stamped_batch16", 1,
      [](benchmark::State& state) { record_alone(state, Form::batch, true); });
  add("full", 1, [](benchmark::State& state) { record_into_full(state); });
  add("beside_drain", 1, [](benchmark::State& state) { record_beside_drain(state); });
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_benchmarks(argc, argv, vma::register_all);
}
