#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

namespace benchmark {
class State;
}

namespace vma {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;
constexpr std::uint64_t gibibyte = std::uint64_t{1} << 30;

/// The duration of one timed call, and other results worth keeping (names end in units).
struct Sample {
  std::chrono::nanoseconds wall{0};
  std::map<std::string, double> counters;
  /// Complete series of values, in order. Written to the file VMART_BENCH_SERIES, if set, as one
  /// line of JSON per call: the name of the benchmark and each series.
  std::map<std::string, std::vector<double>> series;
};

/// Registers a Google Benchmark in which each repetition is one call of `measure`, so that the
/// output contains every sample, and medians, quartiles and extremes can be computed from it.
///
/// `measure` may set up what it needs on the first call, and should warm up then. An exception
/// fails the benchmark and then the program. `repetitions` 0 uses VMART_BENCH_REPETITIONS, or 20.
void register_samples(const std::string& name, std::function<Sample()> measure,
                      int repetitions = 0);

/// The body of every benchmark's main: parses the flags, calls `register_all`, and runs the
/// benchmarks that pass the filter. Returns the exit status: 1 if a benchmark failed, 77 (skipped,
/// for ctest) if `register_all` throws Unavailable, because this machine lacks what the program
/// needs.
int run_benchmarks(int argc, char** argv, const std::function<void()>& register_all);

/// As `run_benchmarks`, for programs whose cases take a time: also takes `--filter=REGEX`, which is
/// `--benchmark_filter`, and `--seconds=S`. Throws: std::invalid_argument if that is no number.
int run_cases(int argc, char** argv, const std::function<void()>& register_all);

/// The approximate duration of a case, by the processor's clock: `--seconds`, or 3.
double case_seconds();

/// Registers a Google Benchmark of so many threads, whose loop runs VMART_BENCH_BATCHES times, or
/// as many as `batches_otherwise`, in each of VMART_BENCH_REPETITIONS (20) repetitions.
void register_threads(const std::string& name, int threads, std::uint64_t batches_otherwise,
                      std::function<void(benchmark::State&)> body);

struct Unavailable {
  std::string reason;
};

/// The number in the environment variable; `otherwise` if it is unset. Throws:
/// std::invalid_argument if the text is not a whole number.
std::uint64_t setting(const char* variable, std::uint64_t otherwise);

/// VMART_BENCH_BYTES_MAX (16 GiB), but at least `least`.
std::uint64_t bytes_max(std::uint64_t least = 0);

/// Those of `bytes` that `bytes_max` allows, or that limit itself if it allows none.
std::vector<std::uint64_t> sizes_up_to_max(std::initializer_list<std::uint64_t> bytes);

/// Such as "64MiB" or "16GiB", as in the names of benchmarks.
std::string size_label(std::uint64_t bytes);

/// Adds "NAME_median_us", "NAME_p99_us" and "NAME_max_us". Requires: at least one value.
void add_percentiles(Sample& sample, const std::string& name,
                     std::vector<std::chrono::nanoseconds> values);

/// Time since construction, by the processor's clock.
class Stopwatch {
 public:
  std::chrono::nanoseconds elapsed() const { return std::chrono::steady_clock::now() - start_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Keeps the calling thread's processor busy for that long, so that it does not go to sleep.
inline void spin_for(std::chrono::nanoseconds wait) {
  const Stopwatch watch;
  while (watch.elapsed() < wait) {
  }
}

/// Processor time of the calling thread, which does not depend on other load.
double cpu_ns();

constexpr double to_us(std::chrono::nanoseconds time) {
  return static_cast<double>(time.count()) / 1e3;
}

/// The median of the values, which are not modified. Requires: at least one value.
std::chrono::nanoseconds median_of(std::vector<std::chrono::nanoseconds> values);

}  // namespace vma
