// Live moves beside threads that allocate, free, synchronise and load kernels without knowing about
// the runtime, beside a second process that moves memory, and beside a monitor. No move may hang.

#include "bench/live/beside_process.hpp"
#include "bench/live/cases.hpp"
#include "bench/live/seam_load.hpp"
#include "bench/rivals/foreign_load.hpp"
#include "runtime/runtime_parts.hpp"

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <vector>

namespace vma {
namespace {

constexpr int streams = 4;
constexpr std::chrono::microseconds kernel(20);

MoveTally move_beside(std::uint64_t bytes, Sample& sample, bool threads) {
  Runtime& runtime = live_runtime();
  const std::vector<Place> gpus = live_gpus(2);
  const MigrateOptions options = options_of(MoveMode::live);
  MovedRange range(runtime, gpus[0], bytes);
  range.reserve(gpus[1]);
  WriterSpec spec = few_writes(range, streams, kernel);
  // Gates need this when other threads free memory; see StreamWork.
  if (threads) spec.work = StreamWork::no_graphs;
  Writers writers(runtime, spec);
  std::optional<SeamLoad> load;
  if (threads) load.emplace(runtime);
  const bool foreign_too = threads && !parts_of(runtime).driver->simulated();
  ForeignLoad foreign(foreign_too ? static_cast<int>(gpus.size()) : 0);
  const int moves = static_cast<int>(setting("VMART_BENCH_MOVES", 1000));
  MoveTally tally = move_to_and_fro(range, gpus[0], gpus[1], options, moves, 20 * case_seconds());
  foreign.stop(sample);
  if (load) {
    load->stop();
    sample.counters["plain_allocations"] = static_cast<double>(load->allocations());
    sample.counters["context_synchronizes"] = static_cast<double>(load->synchronizes());
    sample.counters["kernel_loads"] = static_cast<double>(load->kernel_loads());
  }
  range.check(writers.stop());
  return tally;
}

Sample beside_threads(std::uint64_t bytes, bool threads) {
  Sample sample;
  move_beside(bytes, sample, threads).add_to(sample);
  return sample;
}

Sample beside_command(std::uint64_t bytes, const std::vector<std::string>& command) {
  Sample sample;
  BesideProcess other(command);
  other.await_line();
  const MoveTally tally = move_beside(bytes, sample, false);
  other.require_running();
  tally.add_to(sample);
  return sample;
}

bool input_closed() {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) > 0;
}

}  // namespace

void register_beside_cases() {
  const std::uint64_t bytes = sizes_up_to_max({256 * mebibyte}).front();
  const auto add = [bytes](const std::string& what, std::function<Sample()> measure) {
    register_samples("live/beside/" + what + "/" + size_label(bytes), std::move(measure), 1);
  };
  add("nothing", [bytes] { return beside_threads(bytes, false); });
  add("threads", [bytes] { return beside_threads(bytes, true); });
  add("process", [bytes] { return beside_command(bytes, {"/proc/self/exe", "--beside-process"}); });
  if (parts_of(live_runtime()).driver->simulated()) return;
  add("monitor", [bytes] {
    return beside_command(bytes, {"nvidia-smi", "--query-gpu=memory.used,utilization.gpu",
                                  "--format=csv", "-l", "1"});
  });
}

void run_beside_another() {
  const std::uint64_t bytes = sizes_up_to_max({64 * mebibyte}).front();
  Runtime& runtime = live_runtime();
  const std::vector<Place> gpus = live_gpus(2);
  const MigrateOptions options = options_of(MoveMode::live);
  MovedRange range(runtime, gpus[0], bytes);
  range.reserve(gpus[1]);
  Writers writers(runtime, few_writes(range, streams, kernel));
  move_to_and_fro(range, gpus[0], gpus[1], options, 2, 0);
  std::puts("running");
  std::fflush(stdout);
  while (!input_closed()) move_to_and_fro(range, gpus[0], gpus[1], options, 2, 0);
  range.check(writers.stop());
}

}  // namespace vma
