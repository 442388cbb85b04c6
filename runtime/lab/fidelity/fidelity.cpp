#include "lab/fidelity/fidelity.hpp"

#include "base/units.hpp"
#include "lab/policies/lab_policies.hpp"
#include "placement/weighing/chunk_worth.hpp"
#include "scheduling/policy_library.hpp"

#include <vma/error.hpp>

#include <cmath>
#include <memory>

namespace vma {
namespace {

double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

/// The accessed bytes that were in the HBM of the accessing device.
double own_bytes(const ReplayReport& report) {
  double bytes = 0;
  for (std::size_t device = 0; device < report.devices.size(); ++device)
    bytes += report.devices[device].bytes_by_place[device];  // GPUs are the first places.
  return bytes;
}

/// Options as `Scheduling` sets them.
ReplayOptions options_of(const RecordedRun& run, const PredictOptions& options) {
  const RecordedScheduler set = run.header.scheduler.value_or(RecordedScheduler());
  const Time half_life = options.half_life.value_or(set.half_life);
  const Time stall_budget = options.stall_budget.value_or(set.stall_budget);
  ReplayOptions replay;
  replay.pacing = options.pacing;
  replay.rounds = options.rounds;
  replay.queue_max = options.ahead;
  replay.collect_every = set.collect_every;
  replay.tick = set.tick;
  replay.stall_budget = stall_budget;
  replay.max_stall = set.max_stall;
  replay.scheduler.heat.half_life_short = half_life;
  replay.scheduler.heat.half_life_long = half_life * 10;
  replay.scheduler.planner.stall_share = in_seconds(stall_budget);
  if (stall_budget > Time::zero()) replay.scheduler.planner.stall_burst = stall_budget;
  replay.scheduler.planner.stall_ahead = set.stall_ahead;
  replay.scheduler.planner.route_bytes_s = static_cast<double>(set.copy_budget_bytes);
  return replay;
}

/// Loads no library because a recording names it: its policy has to be one that the lab knows.
std::unique_ptr<Policy> recorded_policy(const std::string& text) {
  const PolicyText split = split_policy_text(text);
  if (!split.path.empty() && lab_policies().find(split.name) == nullptr) {
    throw Error(
        ErrorKind::invalid_argument, "predict",
        "the recording's policy is that of a library, " + text + "; name one with --policy");
  }
  return lab_policies().make(split);
}

std::unique_ptr<Policy> policy_of(const RecordedRun& run, const PredictOptions& options) {
  if (!options.policy.empty()) return load_policy(options.policy, lab_policies());
  if (run.header.scheduler) return recorded_policy(run.header.scheduler->policy);
  if (!run.facts.policies.empty()) return recorded_policy(run.facts.policies.front());
  throw Error(ErrorKind::invalid_argument, "predict",
              "the recording has no policy; name one with --policy");
}

}  // namespace

ReplayReport predict(RecordedRun& run, const ReplayMachine& machine,
                     const PredictOptions& options) {
  KeptTrace loop;
  if (options.pauses != nullptr) options.pauses->write_loop(run, loop);
  run.trace.rewind();
  // Every access names its device, so the router is never used.
  return Replay(machine, options_of(run, options), policy_of(run, options), make_router("hash"))
      .run(options.pauses != nullptr ? loop : run.trace);
}

std::optional<double> Foreseen::error() const {
  if (recorded != 0) return (predicted - recorded) / recorded;
  return predicted == 0 ? std::optional(0.0) : std::nullopt;
}

bool Foreseen::within() const {
  if (bar == 0) return true;
  const std::optional<double> off = error();
  return off && std::abs(*off) <= bar;
}

std::vector<Foreseen> compare(const RecordedFacts& facts, const ReplayReport& report, Pacing pacing,
                              double bar, double stall_bar) {
  // With `at_once` the first access begins with the trace.
  const double took =
      pacing == Pacing::at_once ? report.seconds() : in_seconds(report.end - facts.first_use);
  const auto count = [](auto number) { return static_cast<double>(number); };
  return {{"total_s", "total time, s", facts.seconds(), took, bar},
          {"bytes_moved", "bytes moved", count(facts.bytes_moved), count(report.bytes_moved), bar},
          {"stall_s", "stall, s", in_seconds(facts.stall), in_seconds(report.stall), stall_bar},
          {"gates", "gates", count(facts.stalls), count(report.gates), 0},
          {"skew_s", "skew, s", in_seconds(facts.skew), in_seconds(report.skew), 0},
          {"moves", "moves", count(facts.moves), count(report.moves), 0},
          {"accesses", "accesses", count(facts.accesses), count(report.accesses), 0},
          {"bytes", "bytes accessed", facts.bytes, report.bytes, 0},
          {"own_share", "of these in the device's own HBM", share(facts.own_bytes, facts.bytes),
           share(own_bytes(report), report.bytes), 0}};
}

}  // namespace vma
