#include "bench/harness/samples.hpp"

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iomanip>
#include <stdexcept>
#include <utility>

namespace vma {
namespace {

constexpr int skipped_status = 77;  // The value of ctest's SKIP_RETURN_CODE.

double seconds_a_case = 3;  // Set once, before the first case.
int failures = 0;           // No lock needed: benchmarks run one after another on the main thread.

void append_series(const std::string& name, const Sample& sample) {
  const char* const path = std::getenv("VMART_BENCH_SERIES");
  if (path == nullptr || *path == '\0' || sample.series.empty()) return;
  std::ofstream out(path, std::ios::app);
  out << "{\"name\": \"" << name << '"' << std::fixed << std::setprecision(3);
  for (const auto& [series, values] : sample.series) {
    out << ", \"" << series << "\": [";
    for (std::size_t i = 0; i < values.size(); ++i) out << (i == 0 ? "" : ", ") << values[i];
    out << ']';
  }
  out << "}\n";
  if (!out.flush()) throw std::runtime_error(std::string("cannot write to ") + path);
}

void run_samples(benchmark::State& state, const std::string& name,
                 const std::function<Sample()>& measure) {
  try {
    for ([[maybe_unused]] auto iteration : state) {
      const Sample sample = measure();
      state.SetIterationTime(std::chrono::duration<double>(sample.wall).count());
      for (const auto& [counter, value] : sample.counters) state.counters[counter] = value;
      append_series(name, sample);
    }
  } catch (const std::exception& error) {
    ++failures;
    state.SkipWithError(error.what());
  }
}

int repetitions_otherwise() {
  return static_cast<int>(setting("VMART_BENCH_REPETITIONS", 20));
}

std::chrono::nanoseconds at_fraction(const std::vector<std::chrono::nanoseconds>& sorted,
                                     double fraction) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(last * fraction + 0.5)];
}

}  // namespace

void register_samples(const std::string& name, std::function<Sample()> measure, int repetitions) {
  if (repetitions == 0) repetitions = repetitions_otherwise();
  benchmark::RegisterBenchmark(name.c_str(),
                               [name, measure = std::move(measure)](benchmark::State& state) {
                                 run_samples(state, name, measure);
                               })
      ->UseManualTime()
      ->Iterations(1)
      ->Repetitions(repetitions)
      ->Unit(benchmark::kMicrosecond);
}

int run_benchmarks(int argc, char** argv, const std::function<void()>& register_all) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  try {
    register_all();
  } catch (const Unavailable& unavailable) {
    std::fprintf(stderr, "SKIPPED: %s\n", unavailable.reason.c_str());
    return skipped_status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return failures == 0 ? 0 : 1;
}

int run_cases(int argc, char** argv, const std::function<void()>& register_all) {
  const std::string filter = "--filter=", seconds = "--seconds=";
  std::vector<std::string> flags;
  for (int i = 0; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag.starts_with(seconds)) {
      seconds_a_case = std::stod(flag.substr(seconds.size()));
    } else {
      flags.push_back(flag.starts_with(filter) ? "--benchmark_filter=" + flag.substr(filter.size())
                                               : flag);
    }
  }
  std::vector<char*> rest;
  for (std::string& flag : flags) rest.push_back(flag.data());
  rest.push_back(nullptr);
  return run_benchmarks(static_cast<int>(flags.size()), rest.data(), register_all);
}

double case_seconds() {
  return seconds_a_case;
}

void register_threads(const std::string& name, int threads, std::uint64_t batches_otherwise,
                      std::function<void(benchmark::State&)> body) {
  const std::uint64_t batches = setting("VMART_BENCH_BATCHES", batches_otherwise);
  benchmark::RegisterBenchmark(name.c_str(), std::move(body))
      ->Iterations(static_cast<benchmark::IterationCount>(batches))
      ->Repetitions(repetitions_otherwise())
      ->Threads(threads)
      ->UseRealTime();
}

std::uint64_t setting(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return otherwise;
  std::size_t used = 0;
  const std::string whole(text);
  const std::uint64_t value = std::stoull(whole, &used);
  if (used != whole.size()) throw std::invalid_argument(std::string(variable) + "=" + whole);
  return value;
}

std::uint64_t bytes_max(std::uint64_t least) {
  return std::max(least, setting("VMART_BENCH_BYTES_MAX", 16 * gibibyte));
}

std::vector<std::uint64_t> sizes_up_to_max(std::initializer_list<std::uint64_t> bytes) {
  const std::uint64_t most = bytes_max();
  std::vector<std::uint64_t> allowed;
  std::copy_if(bytes.begin(), bytes.end(), std::back_inserter(allowed),
               [&](std::uint64_t size) { return size <= most; });
  if (allowed.empty()) allowed.push_back(most);
  return allowed;
}

std::string size_label(std::uint64_t bytes) {
  if (bytes % gibibyte == 0) return std::to_string(bytes / gibibyte) + "GiB";
  if (bytes % mebibyte == 0) return std::to_string(bytes / mebibyte) + "MiB";
  return std::to_string(bytes) + "B";
}

void add_percentiles(Sample& sample, const std::string& name,
                     std::vector<std::chrono::nanoseconds> values) {
  std::sort(values.begin(), values.end());
  sample.counters[name + "_median_us"] = to_us(at_fraction(values, 0.5));
  sample.counters[name + "_p99_us"] = to_us(at_fraction(values, 0.99));
  sample.counters[name + "_max_us"] = to_us(values.back());
}

double cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

std::chrono::nanoseconds median_of(std::vector<std::chrono::nanoseconds> values) {
  std::sort(values.begin(), values.end());
  return at_fraction(values, 0.5);
}

}  // namespace vma
