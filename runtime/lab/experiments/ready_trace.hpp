#pragma once

#include "lab/experiments/experiment.hpp"
#include "lab/experiments/result_folder.hpp"
#include "lab/trace/trace_audit.hpp"

#include <cstdint>
#include <string>

namespace vma {

/// Audits all events in a trace's file. Throws: as the source, also for a bad line.
TraceAudit audit_trace(const std::string& path);

/// A trace of an experiment that exists on disk and was read to its end.
struct ReadyTrace {
  std::string path;
  std::string sum;             ///< As from `sum_of_file`.
  std::uint64_t unplaced = 0;  ///< Accesses whose device the router chooses.
  TraceRoom room;
  bool closed_loop = false;  ///< It declares tasks.
};

/// Makes the trace in the folder unless it exists, or takes the given file, and checks every event.
/// Throws: Error{invalid_argument} with the position in the experiment's file, the trace's file and
/// its line or event, and the reason: the trace is empty, out of order, has invalid events, or
/// cannot be made from its input; Error{driver_failure} if it cannot be written.
ReadyTrace make_ready(const ExperimentTrace& trace, std::uint64_t seed, const ResultFolder& folder);

}  // namespace vma
