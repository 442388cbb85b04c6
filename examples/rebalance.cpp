// Memory finds its place by itself: workers on up to four GPUs read blocks that rotate from GPU to
// GPU in each phase, first without anything that moves memory, then with the scheduler.
//   rebalance [--samples FILE] [--policy TEXT]
// FILE gets a line of JSON per sample, for a plot of GB/s over time. TEXT is a policy as in
// VMART_POLICY (cost_benefit). GB/s of a simulated machine are those of this computer's processors;
// the share read from a GPU's own HBM says more, and must grow if the policy ever moves memory.
#include "drifting_workers.hpp"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <string>

namespace {

using namespace std::chrono_literals;
using Seconds = std::chrono::duration<double>;
constexpr std::size_t MiB = 1 << 20;

struct Course {
  bool on = false, simulated = false, drifts = false, right = true;
  double last_local_share = 0;  // At the end of the last phase.
};

void run_phase(DriftingWorkers& workers, std::size_t phase, Course& course, std::ostream& samples) {
  const auto period = course.simulated ? 250ms : 100ms,
             length = course.simulated ? 2'000ms : 4'000ms;
  workers.start_phase(phase);
  fmt::print("{:<4} {:>5}   ", course.on ? "on" : "off", phase);
  for (auto at = 0ms; at < length; at += period) {
    const auto begin = std::chrono::steady_clock::now();
    const std::uint64_t before = workers.bytes_read();
    course.right = workers.run_until(begin + period) && course.right;
    const Seconds passed = std::chrono::steady_clock::now() - begin;
    const double gb_s = static_cast<double>(workers.bytes_read() - before) * 1e-9 / passed.count();
    course.last_local_share = workers.local_share();
    samples << fmt::format(
        "{{\"scheduler\":\"{}\",\"phase\":{},\"at_s\":{:.3f},\"gb_s\":{:.2f},\"local\":{:.3f}}}\n",
        course.on ? "on" : "off", phase, Seconds(at + period).count(), gb_s,
        course.last_local_share);
    if (at % (length / 4) == 0ms || at + period == length) {
      fmt::print(" {:>8.1f} ({:>3.0f} %)", gb_s, 100 * course.last_local_share);
    }
  }
  fmt::print("\n");
}

/// Without a policy, nothing moves memory.
Course run(const std::string& policy, std::ostream& samples) {
  vma::RuntimeOptions options;
  options.policy = policy;
  const bool on = !policy.empty();
  options.half_life = 200ms;
  vma::Runtime runtime(options);
  Course course{on, runtime.description().starts_with("simulated")};
  using Size = DriftingWorkers::Size;
  DriftingWorkers workers(runtime, course.simulated ? Size{2 * MiB, 2} : Size{256 * MiB, 8});
  if (!on) {
    fmt::print("{}\n{} workers, GB/s of all{} (read from the reader's own HBM)\n\n     phase\n",
               runtime.description(), workers.count(), course.simulated ? ", of processors" : "");
  }
  for (std::size_t phase = 0; phase < workers.count(); ++phase)
    run_phase(workers, phase, course, samples);
  if (on) {
    const vma::SchedulerStats stats = runtime.scheduler_stats();
    fmt::print("\n{} moves made of {} wanted, {} failed\n", stats.moves_done, stats.moves_wanted,
               stats.moves_failed);
  }
  course.drifts = workers.count() > 1;
  return course;
}

/// Prints the result. Returns false if the policy did not improve placement.
bool judge(const std::string& policy, const Course& off, const Course& on) {
  const bool stays = policy == "stay_put" || policy == "static";
  const bool better = on.last_local_share > off.last_local_share;
  fmt::print("{}: {:.0f} % from the reader's own HBM at the end, {:.0f} % without it{}\n", policy,
             100 * on.last_local_share, 100 * off.last_local_share,
             stays ? "; it never moves anything" : "");
  return !on.drifts || stays || better;
}

}  // namespace

int main(int argc, char** argv) try {
  std::ofstream samples;
  std::string policy = "cost_benefit";
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--samples") samples.open(argv[i + 1]);
    if (std::string(argv[i]) == "--policy") policy = argv[i + 1];
  }
  const Course off = run("", samples);
  const Course on = run(policy, samples);
  return judge(policy, off, on) && off.right && on.right ? 0 : 1;
} catch (const vma::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
