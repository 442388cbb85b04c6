#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

namespace vma {

/// What one timed call took, and what else is worth keeping of it (units last in each name).
struct Sample {
  std::chrono::nanoseconds wall{0};
  std::map<std::string, double> counters;
  /// Every value of something, in order. They go to the file that VMART_BENCH_SERIES names, if it
  /// does, as a line of JSON a call: the benchmark's name and each series.
  std::map<std::string, std::vector<double>> series;
};

/// Registers a benchmark of Google Benchmark's in which each repetition is one call of `measure`,
/// so that the output holds every sample and medians, quartiles and extremes can be had from it.
///
/// `measure` may set up what it needs the first time and should warm up there. An exception fails
/// the benchmark, and then the program. `repetitions` 0 takes VMART_BENCH_REPETITIONS, else 20.
void register_samples(const std::string& name, std::function<Sample()> measure,
                      int repetitions = 0);

/// The body of every benchmark's main: parses the flags, calls `register_all`, runs what the filter
/// leaves. Returns the exit status: 1 if a benchmark failed, 77 (skipped, to ctest) if
/// `register_all` throws Unavailable, because this machine lacks what the program needs.
int run_benchmarks(int argc, char** argv, const std::function<void()>& register_all);

struct Unavailable {
  std::string reason;
};

/// A number that the environment variable sets; `otherwise` where it is unset.
/// Throws: std::invalid_argument for text that is no whole number.
std::uint64_t setting(const char* variable, std::uint64_t otherwise);

/// Those of `bytes` that VMART_BENCH_BYTES_MAX allows (16 GiB unless set); the bound itself if
/// none.
std::vector<std::uint64_t> sizes_up_to_max(std::initializer_list<std::uint64_t> bytes);

/// "64MiB", "16GiB": as benchmarks are named.
std::string size_label(std::uint64_t bytes);

/// Adds "NAME_median_us", "NAME_p99_us" and "NAME_max_us". Requires: at least one value.
void add_percentiles(Sample& sample, const std::string& name,
                     std::vector<std::chrono::nanoseconds> values);

/// Time from the construction, on the processor's clock.
class Stopwatch {
 public:
  std::chrono::nanoseconds elapsed() const { return std::chrono::steady_clock::now() - start_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

constexpr double to_us(std::chrono::nanoseconds time) {
  return static_cast<double>(time.count()) / 1e3;
}

/// The median; sorts a copy. Requires: at least one value.
std::chrono::nanoseconds median_of(std::vector<std::chrono::nanoseconds> values);

}  // namespace vma
