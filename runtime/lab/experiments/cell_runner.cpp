#include "lab/experiments/cell_runner.hpp"

#include "lab/policies/lab_policies.hpp"
#include "lab/replay/replay.hpp"
#include "lab/replay/replay_metrics.hpp"
#include "lab/replay/replay_report.hpp"
#include "lab/trace/trace_files.hpp"
#include "scheduling/policy_library.hpp"

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

std::string run_cell(const CellSetting& setting, std::unique_ptr<Policy> policy,
                     const RequestLimits& limits, CellRecord record) {
  const auto source = open_trace(setting.trace, 0);
  Replay replay(setting.machine, setting.options, std::move(policy), make_router(setting.router));
  const ReplayReport report = replay.run(*source);
  const ReplayMetrics metrics = metrics_of(report, setting.machine, limits);
  boost::json::object json = to_json(report);
  json["inputs"] = std::move(record.inputs);
  const boost::json::object line{{"cell", std::move(record.cell)},
                                 {"metrics", to_json(metrics)},
                                 {"bound", record.bound},
                                 {"regret", regret_of(metrics, record.bound)},
                                 {"report", std::move(json)}};
  return boost::json::serialize(line) + "\n";
}

void replay_hindsight(const CellSetting& setting, std::uint64_t bad_lines_max, Bound& bound) {
  for (const ObjectHomes& homes : {bound.homes, ObjectHomes()}) {
    const auto source = open_trace(setting.trace, bad_lines_max);
    PlacedTrace placed(*source, homes);
    Replay replay(setting.machine, setting.options, load_policy("static", lab_policies()),
                  make_router(setting.router));
    const ReplayMetrics metrics = metrics_of(replay.run(placed), setting.machine);
    if (metrics.accesses_lost > 0 || metrics.preemptions > 0) continue;
    if (!bound.plan_s || metrics.seconds < *bound.plan_s) bound.plan_s = metrics.seconds;
  }
  bound.gap = gap_of(bound.lower_bound_s, bound.plan_s);
}

std::string run_bound(const CellSetting& setting, const boost::json::object& inputs) {
  boost::json::object line{{"inputs", inputs}};
  const auto source = open_trace(setting.trace, 0);
  const auto find = setting.closed_loop ? find_loop_bound : find_bound;
  try {
    Bound bound = find(*source, setting.machine, setting.router, setting.options);
    if (setting.closed_loop) replay_hindsight(setting, 0, bound);
    line["bound"] = to_json(bound);
    line["reason"] = nullptr;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    line["bound"] = nullptr;
    line["reason"] = error.what();
  }
  return boost::json::serialize(line) + "\n";
}

}  // namespace vma
