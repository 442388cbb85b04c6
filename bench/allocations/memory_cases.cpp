#include "bench/allocations/memory_cases.hpp"

#include "bench/allocations/allocation_trace.hpp"
#include "bench/harness/samples.hpp"

#include <cstdlib>
#include <memory>
#include <utility>

namespace vma {
namespace {

double beyond(std::uint64_t bytes, std::uint64_t asked_bytes) {
  return static_cast<double>(bytes) / static_cast<double>(asked_bytes) - 1;
}

Sample play(const AllocationTrace& trace, MemorySubject& subject) {
  std::vector<std::pair<void*, int>> blocks(trace.blocks);
  const Stopwatch watch;
  for (const AllocationTrace::Step& step : trace.steps) {
    auto& [block, stream] = blocks[step.block];
    if (step.bytes > 0) {
      block = subject.allocate(step.bytes, step.stream);
      stream = step.stream;
    } else {
      subject.free(std::exchange(block, nullptr), step.stream);
    }
  }
  Sample sample;
  sample.wall = watch.elapsed();
  for (const auto& [block, stream] : blocks) {
    if (block != nullptr) subject.free(block, stream);
  }
  sample.counters["asked_bytes"] = static_cast<double>(trace.asked_peak_bytes);
  sample.counters["held_over_asked"] = beyond(subject.held_peak_bytes(), trace.asked_peak_bytes);
  sample.counters["used_over_asked"] = beyond(subject.used_peak_bytes(), trace.asked_peak_bytes);
  if (trace.held_peak_bytes > 0) {
    sample.counters["program_over_asked"] = beyond(trace.held_peak_bytes, trace.asked_peak_bytes);
  }
  sample.counters["call_ns"] = to_us(sample.wall) * 1e3 / static_cast<double>(trace.steps.size());
  return sample;
}

}  // namespace

void register_memory_cases(const std::string& name,
                           const std::function<std::unique_ptr<MemorySubject>(int streams)>& make) {
  const char* folder = std::getenv("VMART_BENCH_ALLOCATIONS");
  for (AllocationTrace& each :
       load_all_allocations(folder != nullptr ? folder : VMART_ALLOCATIONS)) {
    const auto trace = std::make_shared<const AllocationTrace>(std::move(each));
    register_samples(name + "/" + trace->name, [trace, make] {
      const std::unique_ptr<MemorySubject> subject = make(trace->streams);
      return play(*trace, *subject);
    });
  }
}

}  // namespace vma
