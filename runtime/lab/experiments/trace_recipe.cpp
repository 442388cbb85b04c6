#include "lab/experiments/trace_recipe.hpp"

#include "lab/experiments/content_sum.hpp"
#include "lab/experiments/experiment_inputs.hpp"
#include "lab/generate/trace_generators.hpp"
#include "lab/import/trace_formats.hpp"

#include <vma/error.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include <filesystem>

namespace vma {
namespace {

bool is_converted(const ExperimentTrace& trace) {
  return trace.kind == ExperimentTrace::Kind::convert;
}

GenerateOptions generating(const ExperimentTrace& trace, std::uint64_t seed, std::string output) {
  return {trace.maker, std::move(output), trace.values, seed};
}

ConvertOptions converting(const ExperimentTrace& trace, std::uint64_t seed, std::string output) {
  return {trace.maker, trace.input, std::move(output), trace.values, seed};
}

}  // namespace

std::vector<std::string> files_of(const ExperimentTrace& trace) {
  switch (trace.kind) {
    case ExperimentTrace::Kind::file: return {trace.input};
    case ExperimentTrace::Kind::convert: return files_of(converting(trace, 0, {}));
    case ExperimentTrace::Kind::generate: break;
  }
  return {};
}

TraceRecipe::TraceRecipe(const ExperimentTrace& trace, std::uint64_t seed)
    : trace_(trace), seed_(seed) {
  inputs_["made"] = is_converted(trace) ? how_made(converting(trace, seed, {}))
                                        : how_made(generating(trace, seed, {}));
  inputs_["version"] = program_version();
  if (is_converted(trace)) inputs_["input_sums"] = input_sums();
}

/// Keyed by file name without folder, as in the trace's header.
boost::json::object TraceRecipe::input_sums() const {
  boost::json::object sums;
  for (const std::string& file : files_of(trace_))
    sums[std::filesystem::path(file).filename().string()] = sum_of_file(file);
  return sums;
}

void TraceRecipe::make(const std::string& output) const {
  if (!is_converted(trace_)) {
    generate_trace(generating(trace_, seed_, output));
    return;
  }
  convert_trace(converting(trace_, seed_, output));
  if (inputs_.at("input_sums") != input_sums()) {
    throw Error(ErrorKind::invalid_argument, "convert",
                fmt::format("{}: changed while it was read", trace_.input));
  }
}

std::string TraceRecipe::note(const std::string& trace_sum) const {
  return boost::json::serialize(
             boost::json::object{{"inputs", inputs_}, {"trace_sum", trace_sum}}) +
         "\n";
}

std::optional<std::string> TraceRecipe::sum_in(const std::string& note,
                                               const std::string& file) const {
  boost::system::error_code failed;
  const boost::json::value whole = boost::json::parse({note.data(), note.size()}, failed);
  const boost::json::object* const line = failed ? nullptr : whole.if_object();
  if (line == nullptr) return std::nullopt;
  const boost::json::value* const inputs = line->if_contains("inputs");
  const boost::json::value* const sum = line->if_contains("trace_sum");
  if (inputs == nullptr || !inputs->is_object() || sum == nullptr || !sum->is_string())
    return std::nullopt;
  require_same_inputs(inputs_, inputs->get_object(), file);
  return std::string(sum->get_string());
}

}  // namespace vma
