// Speed of reading and writing traces on one core: processor nanoseconds and bytes per event, in
// both forms. The accesses are of 8 GPUs to 10 000 objects, in order or at random.

#include "bench/harness/samples.hpp"

#include "base/units.hpp"
#include "lab/trace/trace_files.hpp"

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t accesses = 2'000'000;
constexpr std::uint64_t objects = 10'000;
constexpr int gpus = 8;

std::vector<TraceEvent> make_accesses(bool in_order) {
  std::mt19937_64 random(1);
  std::vector<TraceEvent> events(accesses);
  for (std::size_t number = 0; number < accesses; ++number) {
    TraceEvent& event = events[number];
    event.time = Time(1000 * number);
    event.object = (in_order ? number : random()) % objects;
    event.bytes = 2 * MiB;
    event.at = TracePlace(gpu(static_cast<int>((in_order ? number : random()) % gpus)));
    event.task = static_cast<std::uint32_t>(1 + number / 10);
  }
  return events;
}

struct TemporaryTrace {
  explicit TemporaryTrace(const std::string& ending) {
    folder = (std::filesystem::temp_directory_path() / "vmart-bench-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path = folder + "/trace" + ending;
  }
  ~TemporaryTrace() { std::filesystem::remove_all(folder); }

  std::string folder, path;
};

Sample measure(const std::vector<TraceEvent>& events, const std::string& ending) {
  const TemporaryTrace trace(ending);
  const double before = cpu_ns();
  const auto sink = create_trace(trace.path, {});
  sink->write(events, TraceTags());
  sink->finish();
  const double written = cpu_ns();
  const Stopwatch watch;
  const auto source = open_trace(trace.path);
  std::size_t read = 0;
  for (auto batch = source->next(); !batch.empty(); batch = source->next()) read += batch.size();
  const double cpu = cpu_ns() - written;
  if (read != events.size()) throw std::runtime_error("the trace lacks events");
  const auto count = static_cast<double>(read);
  Sample sample;
  sample.wall = watch.elapsed();
  sample.counters["read_cpu_ns"] = cpu / count;
  sample.counters["write_cpu_ns"] = (written - before) / count;
  sample.counters["event_bytes"] =
      static_cast<double>(std::filesystem::file_size(trace.path)) / count;
  return sample;
}

void register_all() {
  for (const bool in_order : {true, false}) {
    const std::string name = in_order ? "in_order" : "at_random";
    const auto events = std::make_shared<std::vector<TraceEvent>>(make_accesses(in_order));
    for (const std::string ending : {".vtrace", ".jsonl"}) {
      register_samples("trace/" + name + ending,
                       [events, ending] { return measure(*events, ending); });
    }
  }
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_benchmarks(argc, argv, vma::register_all);
}
