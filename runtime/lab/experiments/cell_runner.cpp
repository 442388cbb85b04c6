#include "lab/experiments/cell_runner.hpp"

#include "base/json.hpp"
#include "lab/bounds/placement_bounds.hpp"
#include "lab/experiments/experiment.hpp"
#include "lab/experiments/recorded_inputs.hpp"
#include "lab/replay/replay.hpp"
#include "lab/replay/replay_metrics.hpp"
#include "lab/replay/replay_report.hpp"
#include "lab/trace/trace_files.hpp"

#include <vma/error.hpp>

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

boost::json::value or_null(const std::optional<double>& value) {
  return value ? boost::json::value(*value) : boost::json::value(nullptr);
}

boost::json::object to_json(const Bound& bound) {
  return {{"lower_bound_s", bound.lower_bound_s},
          {"plan_s", or_null(bound.plan_s)},
          {"kind", bound.kind},
          {"gap", or_null(bound.gap)},
          {"metric", bound.metric}};
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

std::string BoundRunner::run(const ExperimentCell& cell, const ReadyTrace& trace) const {
  const Experiment& experiment = inputs_.experiment();
  boost::json::object line{{"inputs", inputs_.of_bound(cell, trace)}};
  ReplayOptions options;
  options.pacing = experiment.pacing;
  options.chunk_bytes = experiment.chunk_bytes;
  // If the trace names every device, the router is never used, and any will do.
  const std::string router = trace.unplaced == 0 ? "hash" : cell.router;
  const auto source = open_trace(trace.path, 0);
  try {
    const ReplayMachine machine = inputs_.machine_of(cell, trace);
    line["bound"] = to_json(trace.closed_loop ? find_loop_bound(*source, machine, router, options)
                                              : find_bound(*source, machine, router, options));
    line["reason"] = nullptr;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    line["bound"] = nullptr;
    line["reason"] = error.what();
  }
  return boost::json::serialize(line) + "\n";
}

std::optional<boost::json::value> BoundRunner::read(const std::string& text,
                                                    const std::string& file,
                                                    const ExperimentCell& cell,
                                                    const ReadyTrace& trace) const {
  if (!text.ends_with('\n')) return std::nullopt;
  boost::json::value json;
  try {
    json = parse_json(text, file, "vmart-lab run");
  } catch (const Error&) {
    return std::nullopt;
  }
  const boost::json::object* const line = json.if_object();
  if (line == nullptr || !line->contains("bound") || !line->contains("inputs")) return std::nullopt;
  const boost::json::object* const known = line->at("inputs").if_object();
  if (known == nullptr) return std::nullopt;
  require_same_inputs(inputs_.of_bound(cell, trace), *known, file);
  return line->at("bound");
}

}  // namespace vma
