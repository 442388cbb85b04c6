#include "lab/experiments/cell_runner.hpp"

#include "lab/trace/trace_files.hpp"
#include "lab/experiments/experiment_policy.hpp"
#include "lab/replay/replay.hpp"
#include "lab/replay/replay_json.hpp"
#include "lab/replay/replay_metrics.hpp"

#include <boost/json/serialize.hpp>

#include <utility>

namespace vma {
namespace {

/// (metric - bound) / bound, of the metric that the bound limits; null unless both cover the same
/// accesses and nothing was done again.
boost::json::value regret_of(const ReplayMetrics& metrics, const boost::json::value& bound) {
  const boost::json::object* const found = bound.if_object();
  if (found == nullptr || metrics.accesses_lost > 0 || metrics.preemptions > 0) return nullptr;
  const double least = found->at("lower_bound_s").to_number<double>();
  if (!(least > 0)) return nullptr;
  const boost::json::value* const metric = found->if_contains("metric");
  const bool loops = metric != nullptr && *metric == "seconds";
  return ((loops ? metrics.seconds : metrics.access_move_s) - least) / least;
}

}  // namespace

std::string CellRunner::run(const ExperimentCell& cell, const ReadyTrace& trace,
                            const boost::json::value& bound) const {
  const Experiment& experiment = inputs_.experiment();
  ReplayOptions options;
  options.pacing = experiment.pacing;
  options.chunk_bytes = experiment.chunk_bytes;
  options.admission = experiment.admission;
  options.admission_memory = experiment.admission_memory;
  const auto source = open_trace(trace.path, 0);
  const ReplayMachine machine = inputs_.machine_of(cell, trace);
  Replay replay(machine, options, make_policy(experiment, cell.policy), make_router(cell.router));
  const ReplayReport report = replay.run(*source);
  const ReplayMetrics metrics = metrics_of(report, machine, experiment.limits);
  boost::json::object json = to_json(report);
  json["inputs"] = inputs_.of(cell, trace);
  const boost::json::object line{{"cell", inputs_.names_of(cell, trace)},
                                 {"metrics", to_json(metrics)},
                                 {"bound", bound},
                                 {"regret", regret_of(metrics, bound)},
                                 {"report", std::move(json)}};
  return boost::json::serialize(line) + "\n";
}

void CellRunner::require_same(const ExperimentCell& cell, const ReadyTrace& trace,
                              const CellFile& finished) const {
  require_same_inputs(inputs_.of(cell, trace), finished.inputs(), finished.file());
}

}  // namespace vma
