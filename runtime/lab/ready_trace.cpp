#include "lab/ready_trace.hpp"

#include "lab/content_sum.hpp"
#include "lab/experiment_cell.hpp"
#include "lab/trace_audit.hpp"
#include "lab/trace_formats.hpp"
#include "lab/trace_generators.hpp"
#include "lab/trace_source.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <filesystem>

namespace vma {
namespace {

constexpr const char* run_call = "vmart-lab run";

void make(const ExperimentTrace& trace, std::uint64_t seed, const std::string& output) {
  if (trace.kind == ExperimentTrace::Kind::generate) {
    generate_trace({trace.maker, output, trace.values, seed});
  } else {
    ConvertOptions options;
    options.format = trace.maker;
    options.input = trace.input;
    options.output = output;
    options.values = trace.values;
    options.seed = seed;
    convert_trace(options);
  }
}

/// Throws: what the source throws, for a bad line too; Error{invalid_argument} for no events, and
/// for those that do not fit.
TraceAudit audit_of(const std::string& path) {
  const auto source = open_trace(path, 0);
  TraceAudit audit;
  for (auto events = source->next(); !events.empty(); events = source->next()) audit.add(events);
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
  const std::uint64_t unplaced = audit_of(path).unplaced();
  return {path, sum_of_file(path), unplaced};
}

ReadyTrace made(const ExperimentTrace& trace, std::uint64_t seed, const ResultFolder& folder) {
  const std::string name = file_name_of({trace.name, fmt::format("s{}", seed)});
  const std::string path = folder.trace_path(name);
  if (std::filesystem::exists(path)) {
    try {
      return look_at(path);
    } catch (const Error&) {  // The power has failed before it was on the disk.
    }
  }
  const std::string unfinished = folder.unfinished_path(name + ".vtrace");
  make(trace, seed, unfinished);
  folder.finish(unfinished, path);
  return look_at(path);
}

}  // namespace

ReadyTrace make_ready(const ExperimentTrace& trace, std::uint64_t seed,
                      const ResultFolder& folder) {
  try {
    return trace.draws() ? made(trace, seed, folder) : look_at(trace.input);
  } catch (const Error& error) {
    throw Error(error.kind(), run_call, fmt::format("{}: {}", trace.where, error.what()));
  }
}

}  // namespace vma
