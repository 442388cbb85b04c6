#pragma once

#include "lab/experiments/experiment.hpp"
#include "lab/experiments/result_folder.hpp"
#include "lab/trace/trace_audit.hpp"

#include <cstdint>
#include <string>

namespace vma {

/// All events of a trace's file. Throws: what the source throws, for a bad line too.
TraceAudit audit_trace(const std::string& path);

/// A trace of an experiment that lies on the disk and has been read to its end.
struct ReadyTrace {
  std::string path;
  std::string sum;             ///< Of the file, as `sum_of_file`.
  std::uint64_t unplaced = 0;  ///< Accesses whose device a router chooses.
  TraceRoom room;
};

/// Makes the trace in the folder unless it is there already, or takes the file that it is, and
/// looks at every event of it. Throws: Error{invalid_argument} that names the place in the
/// experiment's file, the trace's file with the line or event, and the reason: it is empty, not in
/// order, has events that do not fit, or cannot be made of what is given. Error{driver_failure} if
/// it cannot be written.
ReadyTrace make_ready(const ExperimentTrace& trace, std::uint64_t seed, const ResultFolder& folder);

}  // namespace vma
