#include "lab/experiments/ready_trace.hpp"

#include "lab/experiments/experiment.hpp"
#include "lab/experiments/recorded_inputs.hpp"
#include "lab/generate/trace_generators.hpp"
#include "lab/import/trace_formats.hpp"
#include "lab/trace/trace_audit.hpp"
#include "lab/trace/trace_files.hpp"

#include <vma/error.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

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

constexpr const char* run_call = "vmart-lab run";

/// Throws: as `audit_trace`; Error{invalid_argument} without events, or for inconsistent ones.
TraceAudit sound_audit(const std::string& path) {
  TraceAudit audit = audit_trace(path);
  const auto refuse = [&](const std::string& reason) {
    throw Error(ErrorKind::invalid_argument, "trace", fmt::format("{}: {}", path, reason));
  };
  if (audit.events() == 0) refuse("there are no events");
  if (audit.fault_count() > 0) {
    const TraceAudit::Fault& first = audit.faults().front();
    refuse(fmt::format("event {}: {}; {} events do not fit", first.event, first.reason,
                       audit.fault_count()));
  }
  return audit;
}

ReadyTrace look_at(const std::string& path) {
  const TraceAudit audit = sound_audit(path);
  return {path, sum_of_file(path), audit.unplaced(), audit.room(),
          audit.count(TraceEventKind::task) > 0};
}

/// The trace left by an earlier run, if it is complete.
std::optional<ReadyTrace> left_trace(const std::string& path, const std::string& sum) {
  try {
    ReadyTrace left = look_at(path);
    if (left.sum == sum) return left;
  } catch (const Error&) {  // Incomplete, for example after a power failure.
  }
  return std::nullopt;
}

ReadyTrace made(const ExperimentTrace& trace, std::uint64_t seed, const ResultFolder& folder) {
  const TraceRecipe recipe(trace, seed);
  const std::string name = file_name_of({trace.name, fmt::format("s{}", seed)});
  const std::string path = folder.trace_path(name), note = folder.trace_note_path(name);
  if (const std::optional<std::string> known = ResultFolder::read(note)) {
    const std::optional<std::string> sum = recipe.sum_in(*known, note);
    if (auto left = sum ? left_trace(path, *sum) : std::nullopt) return *std::move(left);
  }
  const std::string unfinished = folder.unfinished_path(name + ".vtrace");
  recipe.make(unfinished);
  folder.finish(unfinished, path);
  ReadyTrace ready = look_at(path);
  folder.write(note, recipe.note(ready.sum));
  return ready;
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

TraceAudit audit_trace(const std::string& path) {
  const auto source = open_trace(path, 0);
  TraceAudit audit;
  for (auto events = source->next(); !events.empty(); events = source->next()) audit.add(events);
  return audit;
}

ReadyTrace make_ready(const ExperimentTrace& trace, std::uint64_t seed,
                      const ResultFolder& folder) {
  try {
    return trace.draws() ? made(trace, seed, folder) : look_at(trace.input);
  } catch (const Error& error) {
    throw Error(error.kind(), run_call, fmt::format("{}: {}", trace.where, error.what()));
  }
}

}  // namespace vma
