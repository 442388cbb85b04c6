#include "lab/cell_runner.hpp"

#include "lab/content_sum.hpp"
#include "lab/replay.hpp"
#include "lab/replay_inputs.hpp"
#include "lab/replay_json.hpp"
#include "lab/replay_metrics.hpp"
#include "placement/built_in_policies.hpp"

#include <vma/error.hpp>

#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include <utility>

namespace vma {
namespace {

/// Devices that follow from the replay, and thus from the policy: a bound knows of no replay.
bool follows_from_replay(const std::string& router) {
  return router == "least_loaded" || router == "object";
}

/// (cost - bound) / bound, where both are of the same accesses.
boost::json::value regret_of(const ReplayMetrics& metrics, const boost::json::value& bound,
                             bool same_devices) {
  const boost::json::object* const found = bound.if_object();
  if (found == nullptr || metrics.accesses_lost > 0 || !same_devices) return nullptr;
  const double least = found->at("lower_bound_s").to_number<double>();
  if (!(least > 0)) return nullptr;
  return (metrics.cost_s - least) / least;
}

}  // namespace

CellRunner::CellRunner(const Experiment& experiment) : experiment_(experiment) {
  for (const ExperimentMachine& machine : experiment.machines)
    machine_sums_.push_back(sum_of_machine(machine.machine));
}

boost::json::object CellRunner::inputs(const ExperimentCell& cell, const ReadyTrace& trace) const {
  boost::json::object inputs = to_json(experiment_, cell);
  inputs["machine_sum"] = machine_sums_[cell.machine];
  inputs["trace_sum"] = trace.sum;
  return inputs;
}

std::string CellRunner::run(const ExperimentCell& cell, const ReadyTrace& trace,
                            const boost::json::value& bound) const {
  ReplayOptions options;
  options.pacing = experiment_.pacing;
  options.chunk_bytes = experiment_.chunk_bytes;
  const auto source = open_trace(trace.path, 0);
  const ReplayMachine& machine = experiment_.machines[cell.machine].machine;
  Replay replay(machine, options, make_policy(cell.policy), make_router(cell.router));
  const ReplayReport report = replay.run(*source);
  const ReplayMetrics metrics = metrics_of(report, machine);
  const bool same_devices = trace.unplaced == 0 || !follows_from_replay(cell.router);
  boost::json::object json = to_json(report);
  json["inputs"] = inputs(cell, trace);
  const boost::json::object line{{"cell", to_json(experiment_, cell)},
                                 {"metrics", to_json(metrics)},
                                 {"bound", bound},
                                 {"regret", regret_of(metrics, bound, same_devices)},
                                 {"report", std::move(json)}};
  return boost::json::serialize(line) + "\n";
}

void CellRunner::require_same(const ExperimentCell& cell, const ReadyTrace& trace,
                              const CellFile& finished) const {
  const boost::json::object wanted = inputs(cell, trace);
  for (const auto& member : wanted) {
    const boost::json::value* const known = finished.inputs().if_contains(member.key());
    if (known != nullptr && *known == member.value()) continue;
    throw Error(ErrorKind::invalid_argument, "vmart-lab run",
                fmt::format("{}: is of other inputs: {} is {} there and {} here; choose another "
                            "folder with --out, or remove it",
                            finished.file(), std::string_view(member.key()),
                            known == nullptr ? "nothing" : boost::json::serialize(*known),
                            boost::json::serialize(member.value())));
  }
}

}  // namespace vma
