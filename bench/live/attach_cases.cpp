// What an attached stream costs an application that never migrates: the duration of a launch on it,
// in batches that alternate with batches on the same stream while it is detached.

#include "bench/live/cases.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr int batch_launches = 500;  // Fewer than a stream accepts without waiting.

Sample attach() {
  Runtime& runtime = live_runtime();
  RuntimeParts& parts = parts_of(runtime);
  Driver& driver = *parts.driver;
  const Place gpu = live_gpus(2).front();
  const Stream stream = runtime.make_stream(gpu);
  const BoundStream bound = parts.machinery->launcher.bind(stream);
  const KernelHandle kernel = driver.load_kernel(bound.context, store_kernel());
  AllocOptions options;
  options.movable = false;
  void* const word = runtime.alloc(sizeof(std::uint64_t), gpu, options);

  const auto launch_us = [&] {
    const Stopwatch watch;
    for (int i = 0; i < batch_launches; ++i) {
      driver.launch(bound, kernel, {{1}, {1}}, KernelArguments::of(word, std::uint64_t{1}));
    }
    const double took_us = to_us(watch.elapsed());
    runtime.synchronize(stream);
    return took_us / batch_launches;
  };
  launch_us();
  std::vector<double> alone, attached;
  const Stopwatch watch;
  while (alone.size() < 4 || to_us(watch.elapsed()) < case_seconds() * 1e6 / 2) {
    alone.push_back(launch_us());
    const AttachedStream scope(runtime, stream);
    attached.push_back(launch_us());
  }
  driver.unload_kernel(kernel);
  runtime.free(word);
  runtime.destroy_stream(stream);

  Sample sample;
  const auto add = [&](const std::string& name, std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const auto at = [&](std::size_t quarter) { return values[(values.size() - 1) * quarter / 4]; };
    sample.counters[name + "_low_us"] = at(1);
    sample.counters[name + "_median_us"] = at(2);
    sample.counters[name + "_high_us"] = at(3);
    sample.wall = std::chrono::nanoseconds(static_cast<std::int64_t>(at(2) * 1e3));
  };
  add("alone", alone);
  add("attached", attached);
  return sample;
}

}  // namespace

void register_attach_cases() {
  register_samples("live/attach/launch", attach, 1);
}

}  // namespace vma
