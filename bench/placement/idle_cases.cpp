// What a scheduler costs that has nothing to do: a program that is bound by its launches launches
// without one, with one, and without again. Nothing reports uses; streams are attached.

#include "bench/placement/cases.hpp"

#include "support/test_kernels.hpp"

#include <string>
#include <vector>

namespace vma {
namespace {

struct Rates {
  double launches_s = 0;
  std::chrono::nanoseconds launch_median{0};
};

Rates launches(const std::string& policy) {
  constexpr int batch = 100;
  RuntimeOptions options;
  options.policy = policy;
  Runtime runtime(options);
  AllocOptions small;
  small.chunk_bytes = 2 * mebibyte;
  auto* data = static_cast<std::uint64_t*>(runtime.alloc(64 * mebibyte, gpu(0), small));
  const Stream stream = runtime.make_stream(gpu(0));
  std::vector<std::chrono::nanoseconds> took;
  {
    const AttachedStream attached(runtime, stream);
    const Stopwatch watch;
    for (std::uint64_t number = 0; took.empty() || to_us(watch.elapsed()) < case_seconds() * 1e6;
         ++number) {
      const Stopwatch one_batch;
      for (int i = 0; i < batch; ++i)
        runtime.launch(stream, store_kernel(), {}, {}, KernelArguments::of(data, number));
      runtime.synchronize(stream);
      if (number > 0) took.push_back(one_batch.elapsed() / batch);  // The first loads the kernel.
    }
  }
  runtime.destroy_stream(stream);
  runtime.free(data);
  std::chrono::nanoseconds all{0};
  for (const auto each : took) all += each;
  return {1e9 * static_cast<double>(took.size()) / static_cast<double>(all.count()),
          median_of(took)};
}

Sample idle(const std::string& policy) {
  const Rates before = launches("");
  const Rates during = launches(policy);
  const Rates after = launches("");
  Sample sample;
  sample.wall = during.launch_median;
  sample.counters["launches_before_per_s"] = before.launches_s;
  sample.counters["launches_during_per_s"] = during.launches_s;
  sample.counters["launches_after_per_s"] = after.launches_s;
  sample.counters["lost_share"] =
      1 - 2 * during.launches_s / (before.launches_s + after.launches_s);
  const double median_before = to_us(before.launch_median + after.launch_median) / 2;
  sample.counters["lost_of_median_share"] = to_us(during.launch_median) / median_before - 1;
  return sample;
}

}  // namespace

void register_idle_cases() {
  for (const std::string policy : {"stay_put", "cost_benefit"})
    register_samples(
        "placement/idle/" + policy, [policy] { return idle(policy); }, 1);
}

}  // namespace vma
