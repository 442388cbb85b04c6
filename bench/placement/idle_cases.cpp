// The cost of a scheduler that has nothing to do. A program that is limited by its launches runs
// alternately with a scheduler and without, since machines drift by more than the scheduler costs.
// For the same reason, the context outlives the runtimes, and the launching thread stays on one
// processor. Nothing reports uses; streams are attached.

#include "bench/placement/cases.hpp"

#include "driver/driver.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr int rounds = 15;

struct Rates {
  double launches_s = 0;
  std::chrono::nanoseconds launch_median{0};
};

/// Retains the primary context of the first GPU. Does nothing on a simulated machine, which exists
/// only as long as its runtime.
class KeptContext {
 public:
  KeptContext() {
    const char* name = std::getenv("VMART_DRIVER");
    const std::string driver = name == nullptr ? "cuda" : name;
    if (driver.starts_with("sim")) return;
    driver_ = open_driver(driver);
    driver_->retain_primary(DeviceId{0});
  }
  ~KeptContext() {
    if (driver_) driver_->release_primary(DeviceId{0});
  }
  KeptContext(const KeptContext&) = delete;
  KeptContext& operator=(const KeptContext&) = delete;

 private:
  std::unique_ptr<Driver> driver_;
};

/// Binds the calling thread to one processor. Threads that it has started before are not affected.
class OneProcessor {
 public:
  OneProcessor() {
    CPU_ZERO(&all_);
    if (::sched_getaffinity(0, sizeof all_, &all_) != 0) return;
    static const int first = ::sched_getcpu();  // The same one each time.
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(first), &one);
    bound_ = ::sched_setaffinity(0, sizeof one, &one) == 0;
  }
  ~OneProcessor() {
    if (bound_) ::sched_setaffinity(0, sizeof all_, &all_);
  }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

 private:
  cpu_set_t all_;
  bool bound_ = false;
};

/// Runs one stretch of launches. All stretches together take as long as five cases.
Rates launches(const std::string& policy) {
  constexpr int batch = 100;
  const double seconds = 5 * case_seconds() / (2 * rounds);
  RuntimeOptions options;
  options.devices = {0};
  options.policy = policy;
  Runtime runtime(options);
  AllocOptions small;
  small.chunk_bytes = 2 * mebibyte;
  auto* data = static_cast<std::uint64_t*>(runtime.alloc(64 * mebibyte, gpu(0), small));
  const Stream stream = runtime.make_stream(gpu(0));
  std::vector<std::chrono::nanoseconds> took;
  {
    const AttachedStream attached(runtime, stream);
    const OneProcessor bound;
    const Stopwatch watch;
    for (std::uint64_t number = 0; took.empty() || to_us(watch.elapsed()) < seconds * 1e6;
         ++number) {
      const Stopwatch one_batch;
      for (int i = 0; i < batch; ++i)
        runtime.launch(stream, store_kernel(), {}, {}, KernelArguments::of(data, number));
      runtime.synchronize(stream);
      // The first batch loads the kernel.
      if (number > 0) took.push_back(one_batch.elapsed() / batch);
    }
  }
  runtime.destroy_stream(stream);
  runtime.free(data);
  std::chrono::nanoseconds all{0};
  for (const auto each : took) all += each;
  return {1e9 * static_cast<double>(took.size()) / static_cast<double>(all.count()),
          median_of(took)};
}

/// Results of the stretches of all rounds, with or without a scheduler.
class Stretches {
 public:
  void add(const Rates& rates) {
    launches_s_.push_back(rates.launches_s);
    launch_medians_.push_back(rates.launch_median);
  }
  double of_round(int round) const { return launches_s_.at(static_cast<std::size_t>(round)); }
  double launches_s() const { return middle(launches_s_); }
  std::chrono::nanoseconds launch_median() const { return median_of(launch_medians_); }
  /// Difference between the fastest and the slowest stretch, relative to the median.
  double spread() const {
    const auto [least, most] = std::ranges::minmax(launches_s_);
    return (most - least) / launches_s();
  }
  static double middle(std::vector<double> values) {
    std::ranges::sort(values);
    return values.at(values.size() / 2);
  }

 private:
  std::vector<double> launches_s_;
  std::vector<std::chrono::nanoseconds> launch_medians_;
};

Sample idle(const std::string& policy) {
  const KeptContext kept;
  launches(policy);  // Warm-up.
  Stretches without, with;
  std::vector<double> lost;  // Per round; the two stretches of a round follow each other.
  for (int round = 0; round < rounds; ++round) {
    const bool with_first = round % 2 == 1;
    if (with_first) with.add(launches(policy));
    without.add(launches(""));
    if (!with_first) with.add(launches(policy));
    lost.push_back(1 - with.of_round(round) / without.of_round(round));
  }
  Sample sample;
  sample.wall = with.launch_median();
  sample.counters["launches_without_per_s"] = without.launches_s();
  sample.counters["launches_with_per_s"] = with.launches_s();
  sample.counters["lost_share"] = Stretches::middle(lost);
  sample.counters["spread_share"] = without.spread();
  sample.counters["lost_of_median_share"] =
      to_us(with.launch_median()) / to_us(without.launch_median()) - 1;
  return sample;
}

}  // namespace

void register_idle_cases() {
  for (const std::string policy : {"stay_put", "cost_benefit"})
    register_samples(
        "placement/idle/" + policy, [policy] { return idle(policy); }, 1);
}

}  // namespace vma
