// How long attached streams are stopped for one chunk, by the size of the chunk, the number of
// streams, the length of their kernels, and the number of queued launches; and if only one of the
// two GPUs that have access is in use, one move after another and after a rest.

#include "bench/live/cases.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

struct StallCase {
  std::uint64_t bytes = 0;
  int streams = 1;
  nanoseconds kernel{0};
  std::string kernel_label;
  std::uint64_t backlog = 1;
  bool one_gpu = false;
  std::chrono::milliseconds rest{0};

  bool headline() const {
    return streams == 4 && backlog == 1 && kernel < std::chrono::milliseconds(1);
  }
};

/// Limits a backlog to a second of work, so that waiting for it is possible.
std::uint64_t bounded(std::uint64_t backlog, nanoseconds kernel) {
  constexpr nanoseconds work_max = std::chrono::seconds(1);
  return std::min(backlog, static_cast<std::uint64_t>(work_max / kernel));
}

Sample stall(const StallCase& chosen) {
  Runtime& runtime = live_runtime();
  const std::vector<Place> gpus = live_gpus(2);
  MovedRange range(runtime, gpus[0], chosen.bytes);
  range.reserve(gpus[1]);
  WriterSpec spec = few_writes(range, chosen.streams, chosen.kernel);
  spec.backlog = bounded(chosen.backlog, chosen.kernel);
  if (chosen.one_gpu) spec.gpus.resize(1);
  Writers writers(runtime, spec);

  constexpr int warming_moves = 4;
  const MigrateOptions options = options_of(MoveMode::live);
  const int moves = static_cast<int>(setting("VMART_BENCH_MOVES", 1000));
  const double seconds = case_seconds() * (chosen.headline() ? 5 : 1);
  move_to_and_fro(range, gpus[0], gpus[1], options, warming_moves, case_seconds());
  const MoveTally tally =
      move_to_and_fro(range, gpus[0], gpus[1], options, moves, seconds, chosen.rest);
  range.check(writers.stop());

  Sample sample;
  tally.add_to(sample);
  sample.counters["backlog_launches"] = static_cast<double>(spec.backlog);
  return sample;
}

}  // namespace

void register_stall_cases() {
  const std::vector<std::pair<std::string, nanoseconds>> kernels = {
      {"5us", std::chrono::microseconds(5)},
      {"1ms", std::chrono::milliseconds(1)},
      {"20ms", std::chrono::milliseconds(20)}};
  for (const std::uint64_t bytes : sizes_up_to_max({64 * mebibyte, 256 * mebibyte})) {
    for (const int streams : {1, 4, 8}) {
      for (const auto& [label, kernel] : kernels) {
        for (const std::uint64_t backlog : {1, 1000}) {
          const StallCase chosen{bytes, streams, kernel, label, backlog, false, 0ms};
          register_samples(
              "live/stall/streams" + std::to_string(streams) + "/kernel" + label + "/backlog" +
                  std::to_string(backlog) + "/" + size_label(bytes),
              [chosen] { return stall(chosen); }, 1);
        }
      }
    }
    for (const std::chrono::milliseconds rest : {0ms, 60ms}) {
      const StallCase one_gpu{bytes, 4, kernels[0].second, kernels[0].first, 1, true, rest};
      const std::string rested = rest > 0ms ? "_rested60ms" : "";
      register_samples(
          "live/stall/one_gpu" + rested + "/streams4/kernel5us/backlog1/" + size_label(bytes),
          [one_gpu] { return stall(one_gpu); }, 1);
    }
  }
}

}  // namespace vma
