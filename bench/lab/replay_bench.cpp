// Speed of a replay on one core: accesses per second of 8 GPUs to 10 000 chunks in as many objects,
// with a Zipf or uniform distribution, with the default policy and with one that moves nothing; and
// of each real trace of the study, on four GPUs with all their HBM and with half of what the trace
// needs. Also the memory that a replay uses: the benchmark fails if four times the accesses need
// more.

#include "bench/lab/real_trace.hpp"
#include "bench/harness/samples.hpp"

#include "base/json.hpp"
#include "base/units.hpp"
#include "base/whole_file.hpp"
#include "lab/replay/replay.hpp"
#include "lab/replay/replay_inputs.hpp"
#include "machine/machine_file.hpp"
#include "placement/policies/built_in_policies.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t objects = 10'000;
constexpr int gpus = 8;
constexpr double growth_max_mib = 16;
// With fewer accesses, a leak per access would not show.
constexpr std::uint64_t accesses_least = 500'000;
// A run with few accesses, which only shows that all works, converts no more than this.
constexpr std::uintmax_t small_input_bytes = 16 * KiB;

double cpu_s() {
  return cpu_ns() / 1e9;
}

/// Generates allocations, then accesses of 2 MiB, on demand.
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
    const double before = cpu_s();
    draw();
    drawing_s_ += cpu_s() - before;
    return batch_;
  }
  /// CPU time that `next` has taken: it is no part of a replay.
  double drawing_s() const { return drawing_s_; }

 private:
  void draw() {
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
  }

  std::mt19937_64 random_{1};
  std::vector<double> sums_;
  std::vector<TraceEvent> batch_;
  std::uint64_t left_, allocated_ = 0;
  Time now_{0};
  double drawing_s_ = 0;
};

/// Peak memory use of this process so far.
double resident_max_mib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

Sample measure(const std::string& policy, bool zipf, std::uint64_t accesses) {
  const ReplayMachine machine = replay_machine(load_machine("h200x8"));
  DrawnTrace trace(accesses, zipf);
  Replay replay(machine, {}, make_policy(policy), make_router("least_loaded"));
  const Stopwatch watch;
  const double before = cpu_s();
  const ReplayReport report = replay.run(trace);
  const double cpu = cpu_s() - before - trace.drawing_s();
  if (report.accesses != accesses) throw std::runtime_error("accesses were lost");
  Sample sample;
  sample.wall = watch.elapsed();
  sample.counters["accesses_per_cpu_s"] = static_cast<double>(accesses) / cpu;
  sample.counters["moves"] = static_cast<double>(report.moves);
  sample.counters["virtual_s"] = report.seconds();
  sample.counters["resident_max_mib"] = resident_max_mib();
  return sample;
}

struct RealCase {
  std::string policy, router;
  double hbm_share = 0;  // Of what the trace needs at most; 0: all HBM of the machine.
  std::uint64_t accesses_max = 0;
};

Sample measure_real(RealTrace& trace, const RealCase& how) {
  ReplayMachine machine = replay_machine(load_machine("h200x4"));
  const ReplayOptions options;
  if (how.hbm_share > 0) share_hbm(machine, how.hbm_share, trace.room(), options.chunk_bytes);
  const auto source = trace.open(how.accesses_max);
  Replay replay(machine, options, make_policy(how.policy), make_router(how.router));
  const Stopwatch watch;
  const double before = cpu_s();
  const ReplayReport report = replay.run(*source);
  const double cpu = cpu_s() - before;
  Sample sample;
  sample.wall = watch.elapsed();
  sample.counters["accesses"] = static_cast<double>(report.accesses);
  sample.counters["accesses_per_cpu_s"] = static_cast<double>(report.accesses) / cpu;
  sample.counters["moves"] = static_cast<double>(report.moves);
  sample.counters["ticks"] = static_cast<double>(report.ticks);
  sample.counters["virtual_s"] = report.seconds();
  return sample;
}

/// How a trace of the study is converted, from its entry in the file.
ConvertOptions conversion(JsonReader entry) {
  ConvertOptions options;
  options.format = entry.text("convert");
  options.input = std::filesystem::path(VMART_STUDY).parent_path() / entry.text("input");
  if (!entry.has("parameters")) return options;
  for (const auto& [name, value] : entry.at("parameters").as_object())
    options.values.push_back(std::string(name) + "=" + readable_json(value));
  return options;
}

void register_real(std::uint64_t accesses) {
  const boost::json::value json =
      parse_json(read_file(VMART_STUDY).value(), VMART_STUDY, "replay_bench");
  JsonReader study(json, VMART_STUDY, "", "replay_bench");
  const std::string router(study.list("routers").at(0).as_string());
  for (std::size_t i = 0; i < study.list("traces").size(); ++i) {
    JsonReader entry = study.element("traces", i);
    if (!entry.has("convert")) continue;
    const ConvertOptions made = conversion(entry);
    if (accesses < accesses_least && std::filesystem::file_size(made.input) > small_input_bytes)
      continue;
    const auto trace = std::make_shared<RealTrace>(made);
    std::string name = entry.text("name");
    std::ranges::replace(name, ' ', '_');
    for (const double share : {0.0, 0.5}) {
      for (const std::string policy : {"static", "auto", "cost_benefit"}) {
        const RealCase how{policy, router, share, accesses};
        register_samples("replay/real/" + name + (share > 0 ? "/half/" : "/all/") + policy,
                         [trace, how] { return measure_real(*trace, how); });
      }
    }
  }
}

/// Requires: this process has not run a larger replay before.
Sample measure_memory(std::uint64_t accesses) {
  accesses = std::max(accesses, accesses_least);
  measure("cost_benefit", true, accesses);
  const double before = resident_max_mib();
  Sample sample = measure("cost_benefit", true, 4 * accesses);
  const double growth = resident_max_mib() - before;
  if (growth >= growth_max_mib) throw std::runtime_error("memory grows with the accesses");
  sample.counters["accesses"] = static_cast<double>(4 * accesses);
  sample.counters["growth_mib"] = growth;
  return sample;
}

void register_all() {
  const std::uint64_t accesses = setting("VMART_BENCH_ACCESSES", 2'000'000);
  register_samples("replay/memory", [accesses] { return measure_memory(accesses); });
  for (const std::string policy : {"stay_put", "cost_benefit"}) {
    for (const bool zipf : {true, false}) {
      register_samples("replay/" + policy + (zipf ? "/zipf" : "/even"),
                       [policy, zipf, accesses] { return measure(policy, zipf, accesses); });
    }
  }
  register_real(accesses);
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_benchmarks(argc, argv, vma::register_all);
}
