#pragma once

#include "lab/experiments/experiment.hpp"
#include "lab/experiments/result_folder.hpp"
#include "lab/trace/trace_audit.hpp"

#include <boost/json/object.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vma {

/// The trace's file, or all files that it is made from. Throws: Error for an incomplete input.
std::vector<std::string> files_of(const ExperimentTrace& trace);

/// How a trace of an experiment is made for one seed, and from which bytes. Recognises a trace that
/// it made by the note next to it: one line of JSON, described in `docs/guide/experiments.md`.
/// Immutable.
class TraceRecipe {
 public:
  /// Reads the conversion's input for its checksum. Requires: `trace` is not a plain file, and
  /// outlives this object. Throws: Error{invalid_argument} if a file cannot be read.
  TraceRecipe(const ExperimentTrace& trace, std::uint64_t seed);

  /// Makes the trace. Throws: as `generate_trace` and `convert_trace`; Error{invalid_argument} if
  /// the conversion's input has changed in the meantime.
  void make(const std::string& output) const;

  /// The note for a trace that it made, with the trace's checksum.
  std::string note(const std::string& trace_sum) const;
  /// The checksum in such a note; nothing if the note is incomplete. Throws:
  /// Error{invalid_argument} that says what differs, if the trace was made differently or from
  /// other bytes.
  std::optional<std::string> sum_in(const std::string& note, const std::string& file) const;

 private:
  boost::json::object input_sums() const;

  const ExperimentTrace& trace_;
  const std::uint64_t seed_;
  boost::json::object inputs_;
};

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
