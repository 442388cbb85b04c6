// How fast a replay is, on one core: accesses a second of 8 GPUs to 10 000 chunks in as many
// objects, drawn by Zipf's law or evenly, with the default policy and with none that moves.

#include "bench/samples.hpp"

#include "base/units.hpp"
#include "lab/replay.hpp"
#include "machine/machine_file.hpp"
#include "placement/built_in_policies.hpp"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t objects = 10'000;
constexpr int gpus = 8;

/// Allocations, then accesses of 2 MiB, made as they are asked for.
class DrawnTrace final : public TraceSource {
 public:
  DrawnTrace(std::uint64_t accesses, bool zipf) : left_(accesses) {
    double sum = 0;
    for (std::uint64_t object = 0; object < objects; ++object) {
      sum += zipf ? 1 / static_cast<double>(object + 1) : 1;
      sums_.push_back(sum);
    }
  }

  std::span<const TraceEvent> next() override {
    batch_.clear();
    while (batch_.size() < batch_max && allocated_ < objects) {
      TraceEvent event;
      event.kind = TraceEventKind::allocation;
      event.object = allocated_++;
      event.bytes = event.chunk_bytes = 32 * MiB;
      batch_.push_back(event);
    }
    while (batch_.size() < batch_max && left_ > 0) {
      --left_;
      TraceEvent event;
      event.time = now_ += std::chrono::nanoseconds(500);
      const double drawn = sums_.back() * static_cast<double>(random_()) / 18446744073709551616.0;
      event.object =
          static_cast<std::uint64_t>(std::ranges::upper_bound(sums_, drawn) - sums_.begin());
      event.bytes = 2 * MiB;
      event.at = TracePlace(gpu(static_cast<int>(random_() % gpus)));
      batch_.push_back(event);
    }
    return batch_;
  }

 private:
  std::mt19937_64 random_{1};
  std::vector<double> sums_;
  std::vector<TraceEvent> batch_;
  std::uint64_t left_, allocated_ = 0;
  Time now_{0};
};

double cpu_s() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

Sample measure(const std::string& policy, bool zipf) {
  const std::uint64_t accesses = setting("VMART_BENCH_ACCESSES", 2'000'000);
  const ReplayMachine machine = replay_machine(load_machine("h200x8"));
  DrawnTrace trace(accesses, zipf);
  Replay replay(machine, {}, make_policy(policy), make_router("least_loaded"));
  const Stopwatch watch;
  const double before = cpu_s();
  const ReplayReport report = replay.run(trace);
  const double cpu = cpu_s() - before;
  if (report.accesses != accesses) throw std::runtime_error("accesses were lost");
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  Sample sample;
  sample.wall = watch.elapsed();
  sample.counters["accesses_per_cpu_s"] = static_cast<double>(accesses) / cpu;
  sample.counters["moves"] = static_cast<double>(report.moves);
  sample.counters["virtual_s"] = report.seconds();
  sample.counters["resident_max_mib"] = static_cast<double>(usage.ru_maxrss) / 1024;
  return sample;
}

void register_all() {
  for (const std::string policy : {"stay_put", "cost_benefit"}) {
    for (const bool zipf : {true, false}) {
      register_samples("replay/" + policy + (zipf ? "/zipf" : "/even"),
                       [policy, zipf] { return measure(policy, zipf); });
    }
  }
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_benchmarks(argc, argv, vma::register_all);
}
