#include "lab/experiments/bound_runner.hpp"

#include "lab/trace/trace_files.hpp"
#include "lab/bounds/placement_bounds.hpp"
#include "machine/json_text.hpp"

#include <vma/error.hpp>

#include <boost/json/serialize.hpp>

namespace vma {
namespace {

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
  std::optional<JsonText> json;
  try {
    json.emplace(text, file, "vmart-lab run");
  } catch (const Error&) {
    return std::nullopt;
  }
  const boost::json::object* const line = json->value().if_object();
  if (line == nullptr || !line->contains("bound") || !line->contains("inputs")) return std::nullopt;
  const boost::json::object* const known = line->at("inputs").if_object();
  if (known == nullptr) return std::nullopt;
  require_same_inputs(inputs_.of_bound(cell, trace), *known, file);
  boost::json::value bound = line->at("bound");
  if (boost::json::object* const object = bound.if_object()) {
    // Boost.JSON may be off by an ulp; `JsonText` is exact.
    for (const char* const key : {"lower_bound_s", "plan_s", "gap"})
      (*object)[key] = or_null(json->number(JsonText::join("bound", key)));
  }
  return bound;
}

}  // namespace vma
