// Cost of recording: nanoseconds and bytes per use on the recording thread, in batches like those
// of a drain, and the speed of reading a recording. The records are of two GPUs that use 10 000
// chunks of 2 MiB, in order or at random.

#include "bench/harness/samples.hpp"

#include "base/executor.hpp"
#include "base/units.hpp"
#include "recording/recording.hpp"
#include "recording/reading/recording_reader.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t uses_a_drain = 1000;
constexpr std::size_t drains = 1000;
constexpr std::uint64_t chunks = 10'000;
constexpr std::uint64_t chunks_an_allocation = 64;

/// Discards blocks, so that only the recording thread's work is measured.
class NoDisk : public BlockSink {
 public:
  void write(const DiskBlock& block, const Loss&) noexcept override { bytes += block.bytes.size(); }
  void finish(const Loss&) noexcept override {}
  std::uint64_t bytes = 0;  // Read only after everything is written.
};

std::vector<RecordedUse> make_uses(bool in_order) {
  std::mt19937_64 random(1);
  std::vector<RecordedUse> uses;
  for (std::size_t use = 0; use < uses_a_drain * drains; ++use) {
    const std::uint64_t chunk = (in_order ? use : random()) % chunks;
    uses.push_back({Time(1000 * use), chunk / chunks_an_allocation,
                    chunk % chunks_an_allocation * 2 * MiB, 2 * MiB, 1, 1,
                    PlaceId{static_cast<std::uint8_t>(use % 2)}, UseKind::read});
  }
  return uses;
}

void record(Recording& recording, const std::vector<RecordedUse>& uses) {
  for (std::size_t drain = 0; drain < drains; ++drain) {
    recording.add(std::span(uses).subspan(drain * uses_a_drain, uses_a_drain));
    recording.flush(uses[drain * uses_a_drain].time);
  }
}

RecordingHeader two_gpus() {
  RecordingHeader header;
  header.places = {{gpu(0), 0, 0, 0}, {gpu(1), 0, 0, 0}, {host(0), 0, 0, 0}};
  header.costs = MachineCosts(2, 3);
  return header;
}

Sample measure_writing(const std::vector<RecordedUse>& uses) {
  ThreadedExecutor threads;
  NoDisk sink;
  RecordingOptions options;
  options.blocks_max = 1000;
  Recording recording(threads, options, sink);
  const Stopwatch watch;
  const double before = cpu_ns();
  record(recording, uses);
  const double cpu = cpu_ns() - before;
  Sample sample;
  sample.wall = watch.elapsed();
  recording.write_all();
  if (recording.stats().records_lost > 0) throw std::runtime_error("records were lost");
  const auto count = static_cast<double>(uses.size());
  sample.counters["ns_per_use"] = static_cast<double>(sample.wall.count()) / count;
  sample.counters["cpu_ns_per_use"] = cpu / count;
  sample.counters["bytes_per_use"] = static_cast<double>(sink.bytes) / count;
  return sample;
}

Sample measure_reading(const std::vector<RecordedUse>& uses) {
  std::string folder = (std::filesystem::temp_directory_path() / "vmart-bench-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no temporary folder");
  ThreadedExecutor threads;
  RecordingOptions options;
  options.directory = folder;
  options.blocks_max = 1000;
  {
    Recording recording(threads, options, two_gpus());
    record(recording, uses);
  }
  const std::string path = fmt::format("{}/vmart-{}-1.rec", folder, ::getpid());
  const auto bytes = static_cast<double>(std::filesystem::file_size(path));
  const Stopwatch watch;
  const double before = cpu_ns();
  RecordingReader reader(path);
  std::size_t read = 0;
  while (reader.next() != nullptr) ++read;
  const double cpu = cpu_ns() - before;
  Sample sample;
  sample.wall = watch.elapsed();
  std::filesystem::remove_all(folder);
  if (read != uses.size()) throw std::runtime_error("the recording lacks uses");
  const auto ns = static_cast<double>(sample.wall.count());
  sample.counters["mb_s"] = bytes * 1e3 / ns;
  sample.counters["mb_per_cpu_s"] = bytes * 1e3 / cpu;
  sample.counters["ns_per_use"] = ns / static_cast<double>(read);
  return sample;
}

void register_all() {
  for (const bool in_order : {true, false}) {
    const std::string name = in_order ? "in_order" : "at_random";
    const auto uses = std::make_shared<std::vector<RecordedUse>>(make_uses(in_order));
    register_samples("record_uses/" + name, [uses] { return measure_writing(*uses); });
    register_samples("read_recording/" + name, [uses] { return measure_reading(*uses); });
  }
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_benchmarks(argc, argv, vma::register_all);
}
