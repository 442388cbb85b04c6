#include "lab/experiments/ready_trace.hpp"

#include "lab/experiments/content_sum.hpp"
#include "lab/experiments/experiment_cell.hpp"
#include "lab/experiments/trace_recipe.hpp"
#include "lab/trace/trace_audit.hpp"
#include "lab/trace/trace_files.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace vma {
namespace {

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
